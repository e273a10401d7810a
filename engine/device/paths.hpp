// Which way bytes go from each device to each other, as copy_between (copies.hpp) sends them. A
// direct path is probed the first time that it is asked for: what arrives is compared. Any thread;
// takes as long as the probes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.hpp"

namespace terrane::engine {

enum class copy_way : std::uint8_t {
  peer,    // from card to card; a probe arrived whole
  shared,  // within a card, of which one driver maps what another exports; a probe arrived whole
  memory,  // both lie in this process's memory: one copy there
  host,    // from the card or to the card, whose driver brings it into this process's memory
  staged   // out of one card into this process's memory, and from there into the other
};
const char* to_string(copy_way way);

struct copy_path {
  std::uint32_t from = 0, to = 0;  // as the devices are counted
  copy_way way = copy_way::staged;
  std::string no_direct;  // why it is not direct, where it might have been: two of one driver, or
                          // on one card
};

// Of each two different devices, both ways.
std::vector<copy_path> find_paths(std::span<device* const> devices);

}  // namespace terrane::engine
