// The numeric contract's self-test on a device: a device that fails must not hold a part of a
// model. Passing is remembered by device, driver and contract, so that later starts don't repeat
// it. Any thread.
#pragma once

#include <string>

#include "engine/device/device.hpp"

namespace terrane::engine {

// Error of code `contract` names device and operation. An empty cache folder remembers nothing.
result<void> self_test(device& on, const std::string& cache_folder);

}  // namespace terrane::engine
