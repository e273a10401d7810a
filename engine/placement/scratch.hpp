// What a device takes beside weights and KV pages once it holds a part, before it does: for
// planning. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/device.hpp"
#include "engine/engine.hpp"
#include "engine/model/model.hpp"

namespace terrane::engine {

// engine_options::attention_bytes, its 0 made a number. The same for all devices: those that hold a
// layer's pages attend the same rows together.
std::uint64_t attention_bytes(const std::vector<const device*>& devices,
                              const engine_options& options);

// Bytes of one device's workspace in an engine over all these, with these options (context,
// sessions, rows).
std::uint64_t scratch_bytes(device& on, const std::vector<const device*>& all, const model& of,
                            const engine_options& options);

// Pages of KV are allocated in multiples of so many, for each layer.
std::uint32_t kv_pages_together();

// Bytes of one page of a layer's KV.
std::uint64_t kv_page_bytes(const model& of);

}  // namespace terrane::engine
