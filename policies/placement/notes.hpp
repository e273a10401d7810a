// Why each device is used or left out in a placement, in a clause for people. Pure; belongs to the
// planner.
#pragma once

#include <vector>

#include "policies/placement/planner.hpp"

namespace terrane::policies::placement {

std::vector<device_note> device_notes(const request& r, const prediction& predicted);

}  // namespace terrane::policies::placement
