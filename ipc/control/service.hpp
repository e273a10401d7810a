// What the daemon implements to be controlled: one function for each method of io.terrane.Control.
// This is the seam between ipc and daemon; tests put a fake behind it.
//
// The control server calls these on its own single thread, with parameters that are valid by the
// interface and a caller whose level suffices for the method. A function must not block: it answers
// at once when it can, or hands the answer to another thread (the engine's queue) and returns. What
// is left to the service: whether the caller may touch this session (`caller::may_use`), whether
// names exist, whether the revision is current (`refuse::stale_revision`), whether there is room.
// Monitor is not here: the daemon publishes to an event_hub and the control server does the rest.
#pragma once

#include <cstdint>

#include <sys/types.h>

#include "ipc/control/answer.hpp"
#include "ipc/control/errors.hpp"
#include "ipc/control/types.hpp"

namespace terrane::ipc {

// Who calls, as the kernel says (SO_PEERCRED), and what they may do.
struct caller {
  uid_t uid = 0;
  pid_t pid = 0;
  access_level level = access_level::observe;

  // Own sessions by uid; those of others at level admin. If false: refuse::not_your_session.
  bool may_use(std::int64_t owner_uid) const {
    return level == access_level::admin || owner_uid == static_cast<std::int64_t>(uid);
  }
};

class control_service {
 public:
  virtual ~control_service() = default;

  virtual void status(const caller& who, answer<status_reply> to) = 0;
  virtual void devices(const caller& who, answer<devices_reply> to) = 0;
  virtual void placement(const caller& who, answer<placement_reply> to) = 0;
  virtual void telemetry(const caller& who, answer<telemetry_reply> to) = 0;
  virtual void snapshot(const caller& who, answer<snapshot_reply> to) = 0;

  virtual void generate(const caller& who, generate_request request, generate_stream to) = 0;
  virtual void stop_generate(const caller& who, std::int64_t session, answer<nothing> to) = 0;
  // The sessions the caller may use.
  virtual void sessions(const caller& who, answer<sessions_reply> to) = 0;
  virtual void close_session(const caller& who, std::int64_t session, answer<nothing> to) = 0;

  virtual void move(const caller& who, move_request request, move_stream to) = 0;
  virtual void cancel_move(const caller& who, std::int64_t move, answer<nothing> to) = 0;
  virtual void spill_kv(const caller& who, spill_kv_request request, answer<kv_reply> to) = 0;
  virtual void fetch_kv(const caller& who, fetch_kv_request request, answer<kv_reply> to) = 0;

  virtual void tuning(const caller& who, answer<tuning_reply> to) = 0;
  virtual void tune(const caller& who, tune_request request, tune_stream to) = 0;

  virtual void policy_list(const caller& who, answer<policy_list_reply> to) = 0;
  virtual void policy_lint(const caller& who, policy_lint_request request,
                           answer<policy_lint_reply> to) = 0;
  virtual void policy_reload(const caller& who, answer<policy_reload_reply> to) = 0;
  virtual void switch_policy(const caller& who, policy_switch request,
                             answer<policy_switch_reply> to) = 0;
  virtual void yield(const caller& who, yield_request request, yield_stream to) = 0;
  virtual void end_yield(const caller& who, end_yield_request request,
                         answer<end_yield_reply> to) = 0;
  virtual void plan(const caller& who, plan_request request, answer<plan_reply> to) = 0;
  virtual void explain(const caller& who, std::int64_t decision, answer<explain_reply> to) = 0;
  virtual void why(const caller& who, std::string part, answer<why_reply> to) = 0;
};

}  // namespace terrane::ipc
