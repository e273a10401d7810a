// Placements in words for people: why each device is used or left out, in a clause, and the
// quantities they speak of. Pure; belongs to the planner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/planner.hpp"

namespace terrane::policies::placement {

std::string milliseconds(double seconds);

std::vector<device_note> device_notes(const request& r, const prediction& predicted);

}  // namespace terrane::policies::placement
