// The step loop: the one thread that owns sessions and placement. It takes commands between steps,
// gathers the rows of all sessions that have work into one step (prompts in chunks beside decodes),
// runs the plan, and hands out tokens. It waits for nothing but the devices and, when there is no
// work, for commands; a request that finds no room waits for what is being freed. A step allocates
// nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "engine/migration/move_job.hpp"
#include "engine/session/execution_plan.hpp"
#include "engine/session/prompt_pace.hpp"
#include "engine/session/release_thread.hpp"
#include "engine/session/session.hpp"
#include "engine/session/token_delay.hpp"

namespace terrane::engine {

class step_loop {
 public:
  step_loop(const model& of, const tokenizer& words, device_rooms& rooms,
            const engine_options& options, const workspace_shape& shape,
            std::vector<std::vector<resident_block_ptr>> blocks,
            std::unique_ptr<execution_plan> plan);
  ~step_loop();

  // Runs `f` on the loop's thread between two steps and returns what it returns.
  template <class F>
  auto call(F f) -> decltype(f()) {
    return call_when(when::in_turn, std::move(f));
  }
  // The same, before all that waits for the step to end.
  template <class F>
  auto call_first(F f) -> decltype(f()) {
    return call_when(when::first, std::move(f));
  }
  // Runs `f` on this thread while the loop's state stands still, also in the middle of a step:
  // while devices compute, which may take seconds where they are slow, nobody else needs it. `f`
  // waits for nobody and changes nothing that a step uses. What it may change: what is its caller's
  // own (a move's job), workspaces of devices that no plan uses (one that is put in place before
  // its device's first part or page comes, one that is taken away), and by whom parts are where
  // they are. Not on the loop's thread.
  template <class F>
  auto while_still(F f) -> decltype(f()) {
    std::lock_guard lock(state_);
    return f();
  }
  // Accepts a request; while admissions are held, and while parts are on a device that is lost, it
  // waits.
  result<session_id> admit(generate_request request, std::shared_ptr<reply_observer> observer);
  // As long as it lives, no request is admitted: those that come wait, replies go on. At most one
  // at a time; not on the loop's thread.
  class admission_hold {
   public:
    explicit admission_hold(step_loop& of) : of_(of) { of_.hold_admissions(true); }
    ~admission_hold() { of_.hold_admissions(false); }
    admission_hold(const admission_hold&) = delete;
    admission_hold& operator=(const admission_hold&) = delete;

   private:
    step_loop& of_;
  };

  // The following run on the loop's thread (through call); those that are const, also
  // through while_still.
  result<void> stop(session_id id);
  result<void> close(session_id id, const std::string& by);
  engine_status status() const;
  const residency& placement() const { return plan_->where(); }
  bool is_replying() const;
  // Records the plan again, with the tuning that devices have now.
  void renew_plan();

  // Parts that a move has found where it takes them are there by it from now on. Through
  // while_still.
  void claim(const move_job& job);
  // Moves: adds the pages that the job still lacks and says which of them are full. Returns true
  // when nothing is left to prepare. Through while_still.
  bool survey(move_job& job);
  // What replies lose to a move that is being prepared. Through while_still.
  token_delay& delay() { return delay_; }
  // Takes the job's pages, weights and plan into use. Leaves everything as it was on failure:
  // conflict when there is more to prepare. Pages that the step since the last survey has filled
  // are copied in the pause, and while admissions are held all that have become full.
  struct commit_report {
    std::uint64_t bytes = 0;  // copied in the pause
    double pause_ms = 0;
    steady_time at;  // its end
    std::uint64_t revision = 0;
  };
  result<commit_report> commit(move_job& job);

  // Takes note of devices that were lost since. Sessions with KV there will compute it again. True
  // while the placement needs a lost device: nothing is computed then and requests wait, until a
  // move has put elsewhere what was there.
  bool notice_lost();
  bool is_stranded() const;
  std::uint32_t lost() const { return lost_; }  // bit d: device d, as far as it was noticed
  // `told` is called on the loop's thread when it has become stranded.
  void on_stranded(std::function<void()> told) { on_stranded_ = std::move(told); }
  std::size_t sessions_rebuilt() const { return rebuilt_; }
  std::vector<std::uint64_t> lost_pages() const;  // by layer
  // Ends all sessions, or those with pages on a lost device, and says how many.
  enum class whom { with_lost_pages, all };
  std::size_t end_sessions(whom which, const error& why);
  // As long as the loop stays stranded, or once it is, requests are refused with it.
  void refuse(const error& why) { unplaced_ = why; }
  // Workspaces of these devices (bit d: device d), of those that no plan needs. Through
  // while_still.
  std::vector<std::unique_ptr<workspace>> take_workspaces(std::uint32_t of);

  std::uint64_t revision() const { return revision_.load(); }

  // Waits until what ended sessions held is free. From any thread but the loop's.
  void wait_for_releases();
  // The same where the caller's last call() came after their end.
  void finish_releases() { releases_.finish(); }

 private:
  struct live_part {
    std::vector<resident_block_ptr> blocks;
    wall_time since = std::chrono::system_clock::now();
    std::optional<steady_time> moved_at;
    std::string by = "start", reason = "placed when the model was loaded";
  };
  struct logit_row {
    session* of;
    std::uint32_t row;
    bool draw;  // else only told to the observer
    std::size_t position;
  };

  enum class when { in_turn, first, admitting };
  struct command {
    std::function<bool()> run;  // false: it is to be run again once admissions are not held
    when due = when::in_turn;   // admitting: it waits while admissions are held
  };
  void post(command next);
  void hold_admissions(bool held);
  bool holds_admissions() const { return admissions_held_ || (is_stranded() && !unplaced_); }
  result<session_id> accept(generate_request& request, std::shared_ptr<reply_observer>& observer);
  void loop();
  bool drain();
  prompt_pace first_pace() const;  // of a placement
  bool gather();
  std::size_t add_rows(session& s, std::size_t count);
  void step(std::unique_lock<std::mutex>& state);
  void note_decode_times();
  void hand_out();
  void give_token(session& s, const step_logits& logits, std::uint64_t hash);
  void finish(session& s, stop_reason reason, std::optional<error> failure = {});
  void fail_step(const error& why);
  void settle();
  bool is_lost(std::uint32_t device) const { return (lost_ >> device & 1U) != 0; }
  bool needs_lost(const residency& where) const;
  bool has_lost_pages(const session& s) const;
  void rewind(session& s);
  void leave_stranding();
  session* find(session_id id);
  void add_kv_of(std::uint32_t layer, part_status& to) const;
  std::vector<kv_share> kv_of(const session& s) const;
  result<void> reserve_pages(session& s, std::size_t tokens);
  void close_now(session& s);
  void trim_pages(session& s);
  void release_ended();
  residency residency_after(const std::vector<std::uint32_t>& parts, const move_job* job) const;
  void replan(residency where);
  void let_go_of_devices();
  std::uint64_t pages_state() const;
  void add_pages(move_job& job, const session& s) const;
  template <class F>
  auto call_when(when due, F f) -> decltype(f()) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto done = task.get_future();
    post({[&task] {
            task();
            return true;
          },
          due});
    return done.get();
  }
  void prepare_switch(move_job& job);
  bool is_up_to_date(const move_job& job) const;
  error more_to_bring(const move_job& job) const;
  bool looks_in_the_pause(const move_job& job) const;
  result<std::uint64_t> copy_last_pages(move_job& job);
  std::vector<kv_page_ptr>* pages_in_use(const page_move& m);
  void swap_pages(move_job& job);
  void add_tables(const session& s, std::vector<slot_tables>& to) const;
  result<void> write_tables(std::span<const slot_tables> tables);
  std::size_t table_entry(std::uint32_t layer, std::size_t page) const {
    return std::size_t{layer} * shape_.pages_per_slot() + page;
  }

  // Held by the loop's thread but while devices compute and while it waits, and by while_still. Of
  // all that follows up to guard_.
  std::mutex state_;
  const model& model_;
  const tokenizer& words_;
  device_rooms& rooms_;
  engine_options options_;
  workspace_shape shape_;
  std::unique_ptr<execution_plan> plan_;
  std::vector<live_part> parts_;
  std::vector<std::unique_ptr<session>> sessions_;
  std::vector<std::unique_ptr<session>> ended_;  // kept until the step that they ended in is over
  release_thread releases_;
  std::vector<bool> slots_;
  session_id next_session_ = 1;
  std::atomic<std::uint64_t> revision_{1};
  std::uint64_t pages_version_ = 0;  // counts changes of which pages sessions hold
  std::uint32_t lost_ = 0;
  std::optional<error> unplaced_;
  std::optional<steady_time> stranded_since_;
  std::size_t rebuilt_ = 0;  // sessions, since it was stranded
  std::function<void()> on_stranded_;
  bool admissions_held_ = false;
  std::vector<command> held_back_;  // admissions, until they are released

  // The step that is being gathered or run.
  step_inputs inputs_;
  std::vector<step_row_span> spans_;
  std::vector<session*> span_sessions_;
  std::vector<logit_row> logit_rows_;
  std::vector<float> logits_;
  step_size size_, last_size_{1, 1, 1};
  std::uint32_t most_position_ = 0;
  std::uint32_t reply_rows_ = 0;  // of replies that are being given, the others are of prompts
  prompt_pace pace_;
  token_delay delay_;
  std::uint64_t steps_ = 0, tokens_ = 0;
  double decode_tok_s_ = 0;
  std::vector<decode_time> decode_times_;  // by device, since the last commit
  past_decode decode_before_;

  std::mutex guard_;
  std::condition_variable wake_;
  std::vector<command> commands_, taken_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrane::engine
