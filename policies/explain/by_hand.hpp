// What is to be said to a person who moves parts by hand: which policies leave them there from now
// on, and which would take them away again. Sentences without a full stop. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// `now` and `state` as they are before the move of these parts to that device.
std::vector<std::string> notes_on_move(const policy_set& policies, const snapshot& now,
                                       const pipeline_state& state,
                                       const std::vector<std::string>& parts,
                                       const std::string& device);

}  // namespace terrane::policies
