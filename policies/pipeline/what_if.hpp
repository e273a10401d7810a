// Dry runs: policies on a snapshot with readings replaced, as if each condition had held long
// enough. Pure; any thread.
#pragma once

#include <string>

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

}  // namespace terrane::policies
