// A control_service that a test drives: it answers with a small made-up machine (two devices, three
// parts, one policy), keeps what it was asked, and leaves replies and moves open for the test to
// continue, from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ipc/control/service.hpp"

namespace terrane::ipc {

class fake_service : public control_service {
 public:
  // When set, Generate answers each prompt at once with these pieces instead of leaving it open.
  std::vector<std::string> pieces;
  // The same for Move.
  bool commit_moves = false;
  std::atomic<daemon_state> state{daemon_state::ready};
  std::atomic<std::int64_t> pid = 4711;
  std::atomic<double> uptime_s = 3725;
  std::int64_t revision = 7;
  bool moves_by_itself = false;  // whenever somebody has looked at the placement
  std::atomic<std::int64_t> session_owner_uid = 0;

  // Waits until a Generate (or Move) has arrived, and takes it out.
  struct open_reply {
    caller who;
    generate_request request;
    generate_stream to;
  };
  struct open_move {
    move_request request;
    move_stream to;
  };
  open_reply next_generate();
  open_move next_move();

  // Orders in force, and what the last reply of a move says beside it.
  std::vector<yield_info> yields;
  std::vector<std::string> switched_off, move_notes;
  // Why standing orders end with the daemon; nothing: they are written down.
  std::optional<std::string> orders_not_kept;

  // Each call that has no visible effect, in words: "close 3", "stop 3", "cancel 5".
  std::vector<std::string> asked() const;
  void wait_for(const std::string& asked);

  void status(const caller& who, answer<status_reply> to) override;
  void devices(const caller& who, answer<devices_reply> to) override;
  void placement(const caller& who, answer<placement_reply> to) override;
  void telemetry(const caller& who, answer<telemetry_reply> to) override;
  void snapshot(const caller& who, answer<snapshot_reply> to) override;
  void generate(const caller& who, generate_request request, generate_stream to) override;
  void stop_generate(const caller& who, std::int64_t session, answer<nothing> to) override;
  void sessions(const caller& who, answer<sessions_reply> to) override;
  void close_session(const caller& who, std::int64_t session, answer<nothing> to) override;
  void move(const caller& who, move_request request, move_stream to) override;
  void cancel_move(const caller& who, std::int64_t move, answer<nothing> to) override;
  void spill_kv(const caller& who, spill_kv_request request, answer<kv_reply> to) override;
  void fetch_kv(const caller& who, fetch_kv_request request, answer<kv_reply> to) override;
  void tuning(const caller& who, answer<tuning_reply> to) override;
  void tune(const caller& who, tune_request request, tune_stream to) override;
  void policy_list(const caller& who, answer<policy_list_reply> to) override;
  void policy_lint(const caller& who, policy_lint_request request,
                   answer<policy_lint_reply> to) override;
  void policy_reload(const caller& who, answer<policy_reload_reply> to) override;
  void switch_policy(const caller& who, policy_switch request,
                     answer<policy_switch_reply> to) override;
  void yield(const caller& who, yield_request request, yield_stream to) override;
  void end_yield(const caller& who, end_yield_request request, answer<end_yield_reply> to) override;
  void plan(const caller& who, plan_request request, answer<plan_reply> to) override;
  void explain(const caller& who, std::int64_t decision, answer<explain_reply> to) override;
  void why(const caller& who, std::string part, answer<why_reply> to) override;

 private:
  void note(std::string what);
  bool may_touch(const caller& who, std::int64_t session, const std::function<void(refusal)>& fail);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<open_reply> generates_;
  std::vector<open_move> moves_;
  std::vector<std::string> asked_;
};

}  // namespace terrane::ipc
