// Placements as snapshots show them, for differences: what the planner's request says of parts and
// devices, and where each part is. Times of tokens and copies are those that were measured; where
// one that is needed was not, all of that kind are left at 0, which stands for "not known". Pure;
// any thread.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "policies/placement/request.hpp"
#include "policies/placement/sequence.hpp"
#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::placement {

struct two_placements {
  request asked;
  standing from;
  placed to;
};

// What runs now, as the planner is asked where it would be better off. Budgets and pools are as
// they are measured now, but never less than what is held: what is there is legal. A part is
// counted with the KV of full contexts; what a device takes beside its parts is what it was found
// to take, and what is expected of one that has none. Times that were not measured follow from the
// bytes, at the speed that the device's other parts show; a device of which no part was timed is
// left out.
struct running {
  request asked;
  placed where;
};

// The error is a clause: nothing can be said yet, as nothing was timed where parts are.
tl::expected<running, std::string> running_in(const snapshot& s);

// From one snapshot's placement to another's, with the bytes and budgets of the first. The error is
// a clause: they are of different models, or devices.
tl::expected<two_placements, std::string> between(const snapshot& from, const snapshot& to);

// From a snapshot's placement to what it is after the moves of a plan; KV that is spilled or
// fetched is left out.
tl::expected<two_placements, std::string> after_plan(const snapshot& from, const plan& planned);

}  // namespace terrane::policies::placement
