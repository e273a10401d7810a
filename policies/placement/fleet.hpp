// Placement on more devices than a dense search can weigh, up to tens of thousands. Devices of one
// speed and rank are one class. Prices are found for whole classes, by the same relaxation as in
// relaxation.hpp with one price a class; then one walk along the chain puts each part on the device
// it stands at, or on the open device of the class that promises most. Time grows with parts times
// classes. What parts share is counted with each of them; what devices share (pools) is one more
// limit. Pure; belongs to the planner.
#pragma once

#include <cstdint>
#include <optional>

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

struct fleet_outcome {
  std::optional<placed> where;
  double bound = 0;  // no placement costs less, what the last rank adds included
  double cost = 0;   // of `where`, likewise
};

// As for make_instance: ranks up to `rank`, its bytes dear where `last`.
fleet_outcome place_on_fleet(const request& r, std::uint32_t rank, bool last, std::uint32_t rounds);

}  // namespace terrane::policies::placement
