#include "daemon/terranectl/commands.hpp"

namespace terrane::daemon::ctl {

std::vector<ipc::ctl::further_command> offline_commands() {
  return {plan_snapshot(), placement_diff(),   policy_lint(),   policy_new(),  policy_test(),
          policy_replay(), policy_reference(), policy_schema(), policy_stubs()};
}

}  // namespace terrane::daemon::ctl
