// Placements that need no search: parts are poured into one device after the other. What the
// planner starts from, and what it falls back on. Pure; belongs to the planner.
#pragma once

#include <optional>
#include <vector>

#include "policies/placement/instance.hpp"

namespace terrane::policies::placement {

// The devices, those first on which all parts together take least.
std::vector<std::uint32_t> fastest_first(const instance& of);

// In the order of the graph, each part on the first device, from the one that the part before is
// on, that has room; so devices get runs of parts. Nothing when a part finds no room.
std::optional<placed> pour(const instance& of, const std::vector<std::uint32_t>& order);

// The largest part first, each on the first device with room: finds a place more often, with more
// crossings.
std::optional<placed> pour_largest_first(const instance& of,
                                         const std::vector<std::uint32_t>& order);

}  // namespace terrane::policies::placement
