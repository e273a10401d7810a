// Which term keeps a model from fitting, with its numbers and what would help. Pure; belongs to the
// planner.
#pragma once

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

// `r` is sound (check()) and has no placement that the planner finds.
refusal why_not(const request& r);

}  // namespace terrane::policies::placement
