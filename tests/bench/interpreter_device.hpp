// The oracle as a device: every kernel of a model run by the interpreter, on the calling thread.
// Slow, and right by definition; exact compares real devices with it on tiny models.
#pragma once

#include <memory>

#include "engine/device/device.hpp"

namespace terrane::bench {

std::unique_ptr<engine::device> make_interpreter_device();

}  // namespace terrane::bench
