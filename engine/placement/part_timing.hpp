// How long parts of a model take on a device, measured before anything is loaded: feed-forwards of
// a few layers, with weights of zeros, are run for one row as a reply would run them. Costs some
// milliseconds, the kernels' compilation (which their use would cost) and room for those layers
// while it lasts; where there is less room, fewer are measured. The device must run nothing else;
// any thread.
#pragma once

#include <cstdint>

#include "engine/device/device.hpp"
#include "engine/model/model.hpp"

namespace terrane::engine {

struct part_timing {
  double feed_forward_s = 0;             // of one row, on average, within a list of several
  double submit_s = 0;                   // of starting a list and waiting for it
  std::uint64_t feed_forward_bytes = 0;  // of its weights
  double write_bytes_per_s = 0;          // from this process to the device
};

// Fails with no_room where not one layer fits, or as the device fails.
result<part_timing> time_parts(device& on, const model& of);

}  // namespace terrane::engine
