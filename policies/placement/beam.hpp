// Builds placements part by part along the chain, keeping at each part the few beginnings that
// promise most: what they cost so far, what the relaxation says the rest will, and what the room
// they have left is worth. Pure; belongs to the planner.
#pragma once

#include <cstdint>
#include <optional>

#include "policies/placement/relaxation.hpp"

namespace terrane::policies::placement {

// The best of `width` beginnings that reached the end. Nothing when none did.
std::optional<placed> follow_beam(const instance& of, const relaxation& guide, std::uint32_t width);

}  // namespace terrane::policies::placement
