// Where the parts of lost devices go when nobody says it better: each to the nearest device that
// has room, which is that of the part before it or after it, else the one with most room left. So
// what a token crosses stays little. Any thread but the step loop's; it only counts.
#pragma once

#include "engine/engine.hpp"
#include "engine/session/execution_plan.hpp"

namespace terrane::engine {

// `pages`: of each layer, the KV pages that come with its attention. Fails with no_room and what is
// missing for the first part that fits nowhere.
result<std::vector<std::uint32_t>> nearest_with_room(const model& of, const device_rooms& rooms,
                                                     const workspace_shape& shape,
                                                     const lost_placement& from,
                                                     const std::vector<std::uint64_t>& pages);

}  // namespace terrane::engine
