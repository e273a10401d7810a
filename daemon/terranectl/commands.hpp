// The commands of terranectl that need no daemon: what they ask of is the policies/ room itself.
// Each has a file of its own, with its options; ipc/terranectl has those that talk to the daemon.
// terrane_offline, the target of this folder, links neither the engine nor LLVM, so that terranectl
// starts at once. One thread.
#pragma once

#include <vector>

#include "ipc/terranectl/program.hpp"

namespace terrane::daemon::ctl {

// All of them, for run().
std::vector<ipc::ctl::further_command> offline_commands();

ipc::ctl::further_command plan_snapshot();
ipc::ctl::further_command placement_diff();
ipc::ctl::further_command policy_lint();
ipc::ctl::further_command policy_new();
ipc::ctl::further_command policy_reference();
ipc::ctl::further_command policy_schema();
ipc::ctl::further_command policy_stubs();
ipc::ctl::further_command policy_replay();
ipc::ctl::further_command policy_test();

}  // namespace terrane::daemon::ctl
