// A device that flips one bit of the first KV page that is copied to it, to show that the
// comparison of logits would notice. Owns the device it wraps. `flipped` becomes true when it has.
#pragma once

#include <atomic>
#include <memory>

#include "engine/device/device.hpp"
#include "engine/model/model.hpp"

namespace terrane::bench {

std::unique_ptr<engine::device> make_corrupting_device(std::unique_ptr<engine::device> inner,
                                                       const engine::model& of,
                                                       std::shared_ptr<std::atomic<bool>> flipped);

}  // namespace terrane::bench
