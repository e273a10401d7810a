// What the driver says of a card, judged: may it be used, and within which limits. Plain values;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/cuda/driver.hpp"
#include "engine/device/device.hpp"

namespace terrane::engine::cuda {

struct physical_device {
  CUdevice handle = 0;
  device_info info;
  std::string refused;  // why it cannot be used, or empty

  int capability = 0;  // 90: compute capability 9.0
  std::uint32_t most_threads = 0;
  std::uint32_t most_groups_x = 0, most_groups_y = 0;
  std::uint32_t most_shared_bytes = 0;  // of a workgroup that asks for more than is usual
  // Memory is mapped by hand in units of `granule` bytes, and may be exported; else plainly.
  bool mapped_by_hand = false;
  bool exportable = false;
  std::size_t granule = 0;
};

inline constexpr int oldest_capability = 75;

// How memory of the card is asked for: on it, exportable where it can be.
CUmemAllocationProp memory_kind(const physical_device& p);

// All cards, refused ones included, in the driver's order.
std::vector<physical_device> survey(const driver& d);

}  // namespace terrane::engine::cuda
