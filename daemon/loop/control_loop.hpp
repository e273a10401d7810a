// The control loop: every period it looks (snapshot), decides (policies), and hands what was
// decided to the engine. It never touches a reply; the engine carries moves out between tokens.
//
// tick() belongs to one thread, the daemon's main. Everything else may be called from any thread:
// the policies, their state and the past are behind one lock that a tick holds for less than a
// millisecond.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/loop/orders.hpp"
#include "daemon/loop/snapshot_builder.hpp"
#include "daemon/record/recorder.hpp"
#include "daemon/state/state_file.hpp"
#include "engine/engine.hpp"
#include "ipc/control/event_hub.hpp"
#include "policies/explain/explain.hpp"
#include "policies/explain/forecasts.hpp"
#include "policies/explain/journal.hpp"
#include "policies/pipeline/evaluate.hpp"

namespace terrane::daemon {

// What became of a planned move.
struct move_result {
  engine::move_state state = engine::move_state::waiting;
  std::string detail;
  double pause_ms = 0;
  double took_ms = 0;       // of its whole commit: all the parts that moved together
  std::uint64_t bytes = 0;  // that travelled for it: its share of the commit's
  double token_ms = 0;      // the devices' work for a token after it; 0: no token yet, or another
                            // move came before there were enough
};

class control_loop {
 public:
  using clock = std::function<std::int64_t()>;  // milliseconds, never going back

  control_loop(engine::inference_engine& engine, snapshot_builder builder,
               policies::policy_set_ptr set, ipc::event_hub& events, clock now);
  ~control_loop();

  void tick();
  // Each tick from the next one on is recorded by `to`, which outlives the loop.
  void record(recorder& to) { recorder_ = &to; }
  // Goes on with what `in` has kept of an earlier life, and keeps its own there: after each tick
  // that decided something or met other orders, and every half minute. Before the first tick; `in`
  // outlives the loop. Returns what is to be told of it, in a sentence each.
  std::vector<std::string> keep(state_file& in);
  // Keeps it now, any thread.
  void save();
  // The same, and returns when it lies on the disk: before an order is answered, so that it
  // outlives whatever comes then. Says what is wrong where it does not; where nothing is kept,
  // nothing is.
  std::string save_and_wait();

  // Puts another set in force; latches of policies of the same name go on.
  void use(policies::policy_set_ptr set);
  policies::policy_set_ptr policies() const;

  // Calls f(set, last snapshot, state, past) under the lock and returns what it returns.
  template <class F>
  auto look(F f) const {
    std::lock_guard lock(guard_);
    return f(*set_, last_, state_, past_);
  }
  // The newest snapshot with the orders of this moment, and what the policies remember, as copies:
  // for questions of what would be decided next.
  struct moment {
    policies::snapshot seen;
    policies::pipeline_state memory;
  };
  moment this_moment();
  // What people have ordered; policies go by it from the next tick on.
  orders& standing() { return orders_; }
  std::optional<move_result> result_of(std::uint64_t planned) const;
  // How good predictions of moves were so far.
  policies::forecasts forecasts() const;
  std::int64_t now_ms() const { return now_(); }  // on the snapshots' clock
  std::int64_t unix_ms(std::int64_t clock_ms) const { return clock_ms + unix_offset_ms_; }
  // What is wrong now with telemetry sources and devices.
  std::vector<std::string> troubles() const;

 private:
  struct inbox;
  void look_for_troubles();
  std::string kept_text();
  void give_back_scratch();
  void look_for_lost_devices(const engine::engine_status& status);
  bool tell_lost_devices();
  static void report(const std::weak_ptr<inbox>& to, const engine::move_status& status,
                     const std::vector<policies::planned_move>& planned);
  void carry_out(const policies::plan& plan);
  void start_move(engine::move_request request, const std::vector<policies::planned_move>& planned);
  void refuse(const policies::planned_move& planned, const error& why);
  void publish(const policies::decision& d);
  std::optional<std::uint32_t> device_index(const std::string& name) const;
  void remember(std::uint64_t planned, move_result r);
  void compare(const engine::move_status& status,
               const std::vector<policies::planned_move>& planned);
  void compare_token_time(const engine::engine_status& status);

  engine::inference_engine& engine_;
  snapshot_builder builder_;
  ipc::event_hub& events_;
  clock now_;
  std::int64_t unix_offset_ms_ = 0;

  mutable std::mutex guard_;
  policies::policy_set_ptr set_;
  policies::snapshot last_;
  policies::pipeline_state state_;
  policies::journal past_;
  std::map<std::uint64_t, move_result> results_;  // by planned move; bounded
  policies::forecasts forecasts_;
  std::vector<std::string> troubles_;
  orders orders_;
  recorder* recorder_ = nullptr;
  state_file* kept_in_ = nullptr;
  std::atomic<std::int64_t> kept_ms_ = 0;
  std::mutex keeping_;  // an older state is not put after a newer one
  std::int64_t sought_ms_ = 0;

  std::map<std::string, std::int64_t> told_troubles_;  // when each was last seen
  std::vector<std::string> lost_;                      // by device: told, and why; empty: whole
  std::shared_ptr<inbox> inbox_;                       // what the engine's mover reports
  std::map<engine::move_id, planned_ids> ids_;
  // Moves whose placement has given too few tokens yet to say how long one takes.
  struct awaited_tokens {
    std::uint64_t revision = 0;
    double predicted_ms = 0;
    std::vector<std::uint64_t> planned;
  };
  std::optional<awaited_tokens> awaited_;
};

}  // namespace terrane::daemon
