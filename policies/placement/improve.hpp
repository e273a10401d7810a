// Makes a legal placement better by small changes until none helps: a run of consecutive parts goes
// to another device, two parts change places, a part makes room for a dearer one by going to a
// third device, two devices change all their parts. Pure; belongs to the planner.
#pragma once

#include <cstdint>

#include "policies/placement/instance.hpp"

namespace terrane::policies::placement {

// `where` is legal and stays so. At most `most_rounds` times over all parts.
placed improve(const instance& of, placed where, std::uint32_t most_rounds);

}  // namespace terrane::policies::placement
