// Dry runs: policies on a snapshot with readings replaced, as if each condition had held long
// enough. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "ipc/control/types.hpp"
#include "policies/explain/record.hpp"
#include "policies/pipeline/evaluate.hpp"

namespace terrane::daemon {

// Puts the reading into the snapshot. Returns what is wrong with it, or nothing.
std::string assume(policies::snapshot& s, const ipc::assumption& a);

// What would be decided if everything stayed as it is for as long as the policies wait: evaluates
// now, and again when all holds have passed. `state` is used up.
policies::decision evaluate_as_if_held(const policies::policy_set& set, policies::snapshot now,
                                       policies::pipeline_state& state);

std::vector<ipc::condition_info> conditions(const std::vector<policies::condition_value>& from);

}  // namespace terrane::daemon
