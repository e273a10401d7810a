// Compiles programs for a device side by side, on as many threads as the host has cores: a first
// start is mostly compilation. Any thread.
#pragma once

#include <span>

#include "engine/device/device.hpp"

namespace terrane::engine {

// The device has them compiled afterwards. The first failure, in the order of the programs.
result<void> compile_all(device& on, std::span<const kernels::program> programs);

}  // namespace terrane::engine
