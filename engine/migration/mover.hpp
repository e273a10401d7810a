// Carries out moves, one after another, on a thread of its own. A move prepares while replies go
// on: space is reserved on the target, weights come from the nearest copy, pages that can no longer
// change are copied, and the new placement's command lists are recorded. Then the step loop commits
// it between two steps. Until the commit a move can be dropped and nothing was lost; a move that
// fails leaves everything where it was and says why. Sessions may come and go as they like: where
// new ones keep a move from its commit, requests wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/migration/move_job.hpp"
#include "engine/session/step_loop.hpp"
#include "engine/tuning/tuning_gate.hpp"

namespace terrane::engine {

// Of engine_options.
struct mover_settings {
  std::chrono::milliseconds warming;
  // Where parts of lost devices go, and who hears of it; either may be empty.
  refuge_chooser choose_refuge;
  refuge_observer on_refuge;
};

class mover {
 public:
  // `gate` is kept while parts of lost devices are moved; who adds a move keeps it meanwhile.
  mover(const model& of, device_rooms& rooms, const workspace_shape& shape, step_loop& loop,
        tuning_gate& gate, mover_settings settings);
  ~mover();  // gives up what is not committed

  move_id add(move_request request, move_observer observer);
  result<void> cancel(move_id id);
  // inference_engine::give_back_scratch
  void give_back_scratch(std::uint32_t device);
  // Before all that waits: a place for what is on lost devices.
  void seek_refuge();
  // Waiting and preparing, in order.
  std::vector<move_status> pending() const;
  // What copies between devices have taken so far, by pair.
  std::vector<link_traffic> traffic() const;

 private:
  void run();
  void carry_out(move_job& job);
  result<void> attempt(move_job& job);
  void free_workspaces();
  void overtake();
  void take_refuge();
  result<void> find_refuge(refuge_report& report);
  result<void> move_to(const std::vector<std::uint32_t>& where, const lost_placement& from,
                       refuge_report& report);
  result<void> prepare(move_job& job);
  result<void> commit(move_job& job, steady_time begin);
  result<void> try_commit(move_job& job, steady_time begin);
  result<void> bring(move_job& job);
  result<void> check_devices(const move_job& job) const;
  result<void> check_room(move_job& job);
  result<void> open(device_room& room);
  result<void> bring_weights(move_job& job);
  result<void> bring_pages(move_job& job);
  void drop_ended(move_job& job);
  result<void> take_pages(move_job& job);
  result<void> copy_pages(move_job& job);
  void rest(move_job& job);
  result<void> build_plan(move_job& job);
  void add_progress(move_job& job, std::uint64_t bytes);
  void tell(move_job& job, move_state state);
  void add_traffic(const move_job& job);

  const model& model_;
  device_rooms& rooms_;
  workspace_shape shape_;
  step_loop& loop_;
  tuning_gate& gate_;
  move_id next_ = 1;
  mutable std::mutex guard_;  // of the queue, of every job's status and of traffic_
  std::condition_variable wake_;
  std::vector<link_traffic> traffic_;
  std::deque<std::shared_ptr<move_job>> queue_;  // the first is being carried out
  mover_settings settings_;
  std::uint32_t giving_back_ = 0;  // bit d: the workspace of device d
  bool refuge_wanted_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrane::engine
