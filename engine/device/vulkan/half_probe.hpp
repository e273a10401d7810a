// Whether a device's code for f16 gives every number exactly. Vulkan lets a driver flush those that
// are denormal, and most do not.
#pragma once

#include "engine/device/device.hpp"

namespace terrane::engine::vulkan {

// Computes all 65,536 halves on the device and compares them. Errors are the device's.
result<bool> halves_are_exact(device& on);

}  // namespace terrane::engine::vulkan
