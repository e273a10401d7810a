// Memory of this process as device memory, and what the host says about its own.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/device/device.hpp"

namespace terrane::engine {

// Zeroed. From 2 MiB on it is aligned to 2 MiB and asks for huge pages, else aligned to 256 bytes.
// Fails with no_room when the system refuses.
result<std::unique_ptr<device_memory>> allocate_host_memory(std::size_t bytes);

std::uint64_t host_memory_bytes();       // installed
std::uint64_t host_memory_used_bytes();  // not available to new work; 0 if the system does not say

}  // namespace terrane::engine
