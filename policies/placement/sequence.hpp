// From the placement that is to the one that is planned: the moves, in steps that are each safe.
// The parts of one step move as one; all of them must find room before any of them leaves, because
// a part is on its new device before the old one is freed. Where parts wait for each other in a
// circle, one goes aside to a device with room and comes back. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

struct step_move {
  std::uint32_t part = 0, from = 0, to = 0;
  std::uint64_t bytes = 0;  // that travel: weights and KV
  bool aside = false;       // not to where it belongs; it goes on in a later step
};

struct move_step {
  std::vector<step_move> moves;
  std::uint64_t bytes = 0;
  double seconds = 0;  // of the copies, by the links' bandwidth, one after the other
};

struct move_sequence {
  std::vector<move_step> steps;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::uint32_t asides = 0;
};

// Where parts are, and which devices hold scratch already: `fee_paid` by device, true where a
// device keeps it though it has no part. Devices of parts have paid. Empty: only those.
struct standing {
  placed where;
  std::vector<bool> fee_paid;
};

// The sequence that moves the fewest bytes and then takes the fewest steps, as far as it is sought:
// where no part has to go aside, none moves twice. Parts that are not on their way stay. What the
// budgets do not allow now (others took memory) only bars what arrives, not what leaves.
// Refused (obstacle::moves) with the parts and devices that block each other.
outcome<move_sequence> find_sequence(const request& r, const standing& now, const placed& target);

// Plays a sequence and looks at every budget after every arrival, and that each part is where its
// move begins. Nothing: it is safe.
outcome<void> check(const request& r, const standing& now, const move_sequence& s);

// Where everything is after it.
placed after(const placed& now, const move_sequence& s);

}  // namespace terrane::policies::placement
