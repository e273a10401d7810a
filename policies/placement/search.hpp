// Looks through placements until none can be better, or a number of steps is spent (branch and
// bound, depth first along the chain, with the relaxation's bound). Pure; belongs to the planner.
#pragma once

#include <cstdint>

#include "policies/placement/relaxation.hpp"

namespace terrane::policies::placement {

struct searched {
  placed best;            // empty: none better than was known
  double cost = never;    // of it
  bool complete = false;  // there is none better; and none at all where none was known
  std::uint64_t steps = 0;
};

// Placements that cost less than `known`; `most_steps` bounds how many beginnings are looked at.
searched search(const instance& of, const relaxation& guide, double known,
                std::uint64_t most_steps);

}  // namespace terrane::policies::placement
