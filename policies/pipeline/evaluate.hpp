// One tick of the policy engine: observe → detect → propose → filter → bind. A pure function of the
// policies, the snapshot and the state; it reads no clock and touches nothing outside. To ask "what
// would happen" call it with a copy of the state and drop the copy. One thread at a time per state.
#pragma once

#include <vector>

#include "policies/explain/record.hpp"
#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct decision {
  plan planned;
  std::vector<decision_record> records;  // one for each policy and object that fired; mostly none
};

// Judges every latch, and for those that fire plans moves. `state` carries latches, holds and
// unfinished moves from tick to tick; it may be used with a newer policy set, where policies of the
// same name go on as they were.
decision evaluate(const policy_set& policies, const snapshot& now, pipeline_state& state);

}  // namespace terrane::policies
