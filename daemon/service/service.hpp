// Answers the control protocol: turns calls into commands for engine and policies, and what they
// say into replies. Serves from before the model is loaded, and when it cannot be, refusing by name
// what needs one.
//
// The control server calls it on its thread; whatever waits for the engine is done on a worker.
// The set_ functions are called by the daemon's main thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/journal/warnings.hpp"
#include "daemon/loop/control_loop.hpp"
#include "daemon/service/worker.hpp"
#include "daemon/telemetry/user_names.hpp"
#include "engine/chat/chat_format.hpp"
#include "engine/device/discovery.hpp"
#include "engine/device/paths.hpp"
#include "engine/engine.hpp"
#include "ipc/control/event_hub.hpp"
#include "ipc/control/service.hpp"

namespace terrane::daemon {

class service final : public ipc::control_service {
 public:
  service(const config& c, ipc::event_hub& events, warnings& standing)
      : config_(c), events_(events), warnings_(standing) {}

  // From now on calls reach them; both outlive the service's calls. `configured`: of each device of
  // the engine. `refused`: devices of the machine that cannot be used. `paths`: between the
  // engine's devices.
  void set_ready(engine::inference_engine& engine, control_loop& loop,
                 std::vector<device_config> configured,
                 std::vector<engine::device_candidate> refused,
                 std::vector<engine::copy_path> paths);
  // There is no model, and why: until set_starting(), methods that need one say so.
  void set_failed(const std::string& reason);
  void set_starting() { state_ = ipc::daemon_state::starting; }
  void set_stopping() { state_ = ipc::daemon_state::stopping; }
  // Before engine and loop go: no call reaches them any more.
  void finish() {
    tuner_.end();  // soon: it looks whether the daemon is stopping
    reloader_.end();
    admitting_.end();
    worker_.end();
  }
  // Loads the policies again, for SIGHUP; with or without a model. A set that its authors' tests
  // beside it do not pass, or that has faults, is refused: the old one stays in force, and a
  // warning stands until a later reload is taken. Returns at once; `ended` is called on another
  // thread.
  void reload_policies(std::function<void()> ended);
  // Puts among the standing warnings what of the policies in force can never act on this machine,
  // by the newest snapshot, as each reload does. Once ready. The first returns at once and leaves
  // it to the thread of reloads: what is told last is then of the set in force.
  void begin_to_tell_what_cannot_act();
  void tell_what_cannot_act();
  // Told of each set that was taken, on another thread, the newest last.
  void on_reload(std::function<void(policies::policy_set_ptr)> told) { told_ = std::move(told); }

  void status(const ipc::caller& who, ipc::answer<ipc::status_reply> to) override;
  void devices(const ipc::caller& who, ipc::answer<ipc::devices_reply> to) override;
  void placement(const ipc::caller& who, ipc::answer<ipc::placement_reply> to) override;
  void telemetry(const ipc::caller& who, ipc::answer<ipc::telemetry_reply> to) override;
  void snapshot(const ipc::caller& who, ipc::answer<ipc::snapshot_reply> to) override;
  void generate(const ipc::caller& who, ipc::generate_request request,
                ipc::generate_stream to) override;
  void stop_generate(const ipc::caller& who, std::int64_t session,
                     ipc::answer<ipc::nothing> to) override;
  void sessions(const ipc::caller& who, ipc::answer<ipc::sessions_reply> to) override;
  void close_session(const ipc::caller& who, std::int64_t session,
                     ipc::answer<ipc::nothing> to) override;
  void move(const ipc::caller& who, ipc::move_request request, ipc::move_stream to) override;
  void cancel_move(const ipc::caller& who, std::int64_t move,
                   ipc::answer<ipc::nothing> to) override;
  void spill_kv(const ipc::caller& who, ipc::spill_kv_request request,
                ipc::answer<ipc::kv_reply> to) override;
  void fetch_kv(const ipc::caller& who, ipc::fetch_kv_request request,
                ipc::answer<ipc::kv_reply> to) override;
  void tuning(const ipc::caller& who, ipc::answer<ipc::tuning_reply> to) override;
  void tune(const ipc::caller& who, ipc::tune_request request, ipc::tune_stream to) override;
  void policy_list(const ipc::caller& who, ipc::answer<ipc::policy_list_reply> to) override;
  void policy_lint(const ipc::caller& who, ipc::policy_lint_request request,
                   ipc::answer<ipc::policy_lint_reply> to) override;
  void policy_reload(const ipc::caller& who, ipc::answer<ipc::policy_reload_reply> to) override;
  void switch_policy(const ipc::caller& who, ipc::policy_switch request,
                     ipc::answer<ipc::policy_switch_reply> to) override;
  void yield(const ipc::caller& who, ipc::yield_request request, ipc::yield_stream to) override;
  void end_yield(const ipc::caller& who, ipc::end_yield_request request,
                 ipc::answer<ipc::end_yield_reply> to) override;
  void plan(const ipc::caller& who, ipc::plan_request request,
            ipc::answer<ipc::plan_reply> to) override;
  void explain(const ipc::caller& who, std::int64_t decision,
               ipc::answer<ipc::explain_reply> to) override;
  void why(const ipc::caller& who, std::string part, ipc::answer<ipc::why_reply> to) override;

 private:
  // Runs f(engine, loop) on the worker, or refuses: not ready, failed, stopping.
  template <class Answer, class F>
  void with_engine(const Answer& to, F f) {
    with_engine_on(worker_, to, std::move(f));
  }
  template <class Answer, class F>
  void with_engine_on(worker& thread, const Answer& to, F f) {
    if (const auto refused = no_engine()) return to.fail(*refused);
    thread.add([this, f = std::move(f)]() mutable { f(*engine_, *loop_); });
  }
  // The same with the session, if it exists and the caller may use it.
  template <class Answer, class F>
  void with_own_session(const ipc::caller& who, std::int64_t session, const Answer& to, F f) {
    with_engine(to, [who, session, to, f = std::move(f)](engine::inference_engine& e,
                                                         control_loop&) mutable {
      for (const engine::session_status& s : e.status().sessions) {
        if (static_cast<std::int64_t>(s.id) != session) continue;
        if (!who.may_use(s.owner)) return to.fail(ipc::refuse::not_your_session(session));
        return f(e, s);
      }
      to.fail(ipc::refuse::unknown_session(session));
    });
  }
  std::optional<ipc::refusal> no_engine() const;
  ipc::part_placement placement_of(const engine::engine_status& status,
                                   engine::part_index part) const;
  ipc::decision_info describe(const policies::decision_record& r) const;
  result<std::vector<engine::token_id>> prompt_tokens(const ipc::generate_request& request) const;
  void move_kv(engine::spill_request spill, std::optional<std::int64_t> revision,
               const std::string& by, const ipc::answer<ipc::kv_reply>& to);
  void publish_move(const engine::move_status& s);
  // A device that parts or pages may be brought to, or why not: unknown, refused, lost.
  tl::expected<std::uint32_t, ipc::refusal> usable_device(const std::string& name) const;
  // The yields in force, and why nothing is to be brought to a device that has one.
  std::vector<ipc::yield_info> yields() const;
  std::optional<ipc::refusal> why_yields(const std::string& device) const;
  std::vector<std::string> part_names() const;
  // What is known of the kernels of a device.
  static void add_kernels(engine::device& from, std::vector<ipc::tuned_kernel_info>& to);
  struct reloaded {
    policies::policy_set_ptr set;
    std::size_t tests = 0;           // that it passed
    std::vector<std::string> notes;  // what it would do now that the old one would not, and more
  };
  policies::policy_set::load_result<reloaded> reload_now();
  std::vector<std::string> notes_on(const policies::policy_set& next);
  void tune_all(const std::vector<std::uint32_t>& devices, const ipc::tune_stream& to);

  const config& config_;
  ipc::event_hub& events_;
  warnings& warnings_;
  std::function<void(policies::policy_set_ptr)> told_;
  std::atomic<ipc::daemon_state> state_{ipc::daemon_state::starting};
  mutable std::mutex reason_guard_;
  std::string reason_;  // of `failed`
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  engine::inference_engine* engine_ = nullptr;  // set before state_ is ready
  control_loop* loop_ = nullptr;
  std::optional<engine::chat_format> chat_;
  std::string no_chat_;  // why there is no chat format
  std::vector<device_config> configured_;
  std::vector<engine::device_candidate> refused_;
  std::vector<engine::copy_path> paths_;
  worker reloader_;   // policies' tests may take seconds
  worker tuner_;      // kernels are timed for seconds: not on the worker that answers others
  user_names users_;  // for the quotas of users; only on admitting_
  worker admitting_;  // a request may wait for a move to end
  worker worker_;     // last: its work uses the others
};

}  // namespace terrane::daemon
