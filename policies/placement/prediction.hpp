// What a placement costs, term by term, and whether it is legal. This is the one place where a
// placement is judged: the planner's searches, the tests and the differences of placements all end
// here. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

// What one device has to do with a placement.
struct device_share {
  std::uint32_t parts = 0;
  std::uint64_t weight_bytes = 0;  // what parts share counted once
  std::uint64_t kv_bytes = 0;
  std::uint64_t fee_bytes = 0;   // 0 where there is no part
  std::uint64_t room_bytes = 0;  // left for more parts, after fee and reserve
  double seconds = 0;            // of a token, its parts together
  std::uint64_t held_bytes() const { return weight_bytes + kv_bytes + fee_bytes; }
};

struct prediction {
  double token_s = 0;  // parts and crossings
  double parts_s = 0;
  double crossing_s = 0;  // the hidden state on its way between devices
  std::uint32_t crossings = 0;
  std::vector<device_share> devices;  // as in the request
};

// `where` has a device of the request for every part; it need not be legal.
prediction predict(const request& r, const placed& where);

// What the devices of a pool hold together.
std::uint64_t held_bytes(const prediction& all, const pool& of);

// Nothing where every part is on a device that may hold it and no device holds more than it may;
// else the first thing that is wrong.
outcome<void> check(const request& r, const placed& where);

}  // namespace terrane::policies::placement
