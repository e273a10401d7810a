// How good a placement can be at best. Each byte on a device is given a price instead of a limit
// (Lagrangian relaxation of the room); what is left is a shortest path along the chain of parts,
// which a pass from its end to its beginning solves. The price is raised where the path asks for
// more than there is and lowered where it leaves room (subgradient steps, Polyak's length). The
// best bound over all rounds holds for every legal placement, and its prices and costs to go lead
// the searches. Pure; belongs to the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/instance.hpp"

namespace terrane::policies::placement {

struct relaxation {
  double bound = 0;           // no legal placement costs less
  std::vector<double> price;  // of a byte, by device; with what a byte of its pool costs
  double room_worth = 0;      // of all room at these prices: what a placement pays at most
  // [part][device]: the least that all later parts cost, prices included, with this part here.
  std::vector<double> to_go;
  placed path;  // of the best bound; may ask for more room than there is
};

// The bytes that a search may count for a part and still be right about the bound: what is shared
// is counted with the first part that has it.
std::vector<std::int64_t> least_bytes(const instance& of);

// `upper`: what a placement is known to cost, or infinity. `from`: prices to start with; empty: 0.
relaxation relax(const instance& of, double upper, std::uint32_t rounds,
                 const std::vector<double>& from = {});

// The costs to go, path and bound of given prices.
relaxation at_prices(const instance& of, const std::vector<double>& price);

}  // namespace terrane::policies::placement
