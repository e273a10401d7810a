// The planner: from what a model needs and what devices offer to the placement with the least
// predicted time of a token that keeps to everything that must hold.
//
// It weighs bounds, not guesses: the relaxation of relaxation.hpp says how good a placement can be
// at best; a beam, small changes and a search by branch and bound look for one that is. What it
// does is bounded in steps, never in time, so the same request gives the same answer everywhere. A
// model of a few dozen choices is solved exactly; of a larger one `bound_s` says how far from the
// best the answer can be at most. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/prediction.hpp"
#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

struct effort {
  std::uint32_t rounds = 80;                 // of prices
  std::uint32_t width = 5;                   // beginnings that are followed at once
  std::uint32_t improvements = 20;           // rounds of small changes
  std::uint64_t steps = 600;                 // of the search
  std::uint64_t steps_when_small = 400'000;  // where parts times devices is at most 64
};

// What one device has to do with an answer, for people.
struct device_note {
  bool used = false;
  std::string reason;  // "holds 12 parts: ...", "left out: ...": a clause
};

struct answer {
  placed where;
  prediction predicted;
  // No legal placement takes less (of those that use the same ranks of devices as little).
  double bound_s = 0;
  bool exact = false;              // there is none better
  std::vector<device_note> notes;  // by device
};

// `now`: where the parts are, if they are anywhere: never answered with something slower where that
// is legal. Refused: what check() refuses; what fits on no device; with the term that blocks.
outcome<answer> plan(const request& r, const effort& most = {}, const placed& now = {});

// Any legal placement, found with little effort: whether the model fits. Fails as plan() does.
outcome<placed> place_somehow(const request& r);

}  // namespace terrane::policies::placement
