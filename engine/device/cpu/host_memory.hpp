// Memory of this process as device memory, and what the host says about its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/device/device.hpp"

namespace terrane::engine {

// Zeroed. From 2 MiB on it is aligned to 2 MiB and asks for huge pages, else aligned to 256 bytes.
// Fails with no_room when the system refuses.
result<std::unique_ptr<device_memory>> allocate_host_memory(std::size_t bytes);

std::uint64_t host_memory_bytes();  // installed

// What the system says of the host's memory, of which `available_bytes` are there for new work.
struct host_memory {
  std::uint64_t total_bytes = 0, available_bytes = 0;
  std::uint64_t used_bytes() const {
    return total_bytes > available_bytes ? total_bytes - available_bytes : 0;
  }
};
// From `proc`/meminfo; nothing if it does not say both.
std::optional<host_memory> read_host_memory(const std::string& proc = "/proc");

}  // namespace terrane::engine
