// Dry runs: policies on a snapshot with readings replaced, as if each condition had held long
// enough. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "policies/pipeline/evaluate.hpp"

namespace terrane::policies {

// A reading as it is supposed to be: "vram.used_ratio" of "vulkan:x", a name that may be cut.
struct assumption {
  std::string metric;
  std::string object;
  double value = 0;  // in the metric's unit
};

// Puts the reading into the snapshot. Returns what is wrong with it, or nothing.
std::string assume(snapshot& s, const assumption& a);

// What would be decided if everything stayed as it is for as long as the policies wait: evaluates
// now, and again when all holds have passed. `state` is used up. Whatever it waited for, what is
// told is of the snapshot that was asked about; a dry run's numbers will be given again, so
// decisions and moves have none.
decision evaluate_as_if_held(const policy_set& set, const snapshot& asked, pipeline_state& state);

// What policies would take away again, were a person to put these parts on the device now, as far
// as it would be within ten minutes: the moves of the first decision that does. What else changes
// then is not foreseen. Names that the snapshot does not have are left out.
std::vector<planned_move> taken_away_again(const policy_set& set, snapshot now,
                                           pipeline_state state,
                                           const std::vector<std::string>& parts,
                                           const std::string& device);

}  // namespace terrane::policies
