// Many copies between this process and a device as one operation, for devices on which each alone
// would wait for the card. Found by dynamic_cast; complete on return; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/result.hpp"

namespace terrane::engine {

// Bytes of a device's memory, and where they are or are to be in this process.
struct host_range {
  std::uint64_t address = 0;
  std::byte* host = nullptr;
  std::size_t bytes = 0;
};

class copies_many {
 public:
  virtual ~copies_many() = default;
  virtual result<void> write_many(std::span<const host_range> ranges) = 0;
  virtual result<void> read_many(std::span<const host_range> ranges) = 0;
};

}  // namespace terrane::engine
