// Memory of this process that kernels of a card write through its bus: no copy is needed to read
// what they made. Any thread.
#pragma once

#include <memory>

#include "engine/device/cuda/context.hpp"
#include "engine/device/device.hpp"

namespace terrane::engine::cuda {

// All zero. `card` outlives it. Fails with the driver's reason.
result<std::unique_ptr<device_memory>> allocate_pinned(const context& card, std::size_t bytes);

}  // namespace terrane::engine::cuda
