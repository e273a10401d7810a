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

// engine_options::rows where nobody says how many: the more, the faster a GPU reads a prompt, up to
// 2,048; but what is more than the usual 64 takes no more than a 256th of any device's memory.
// Devices that are slow take fewer of them (prompt_pace). The usual 64 where none has its own
// memory.
std::uint32_t automatic_rows(const std::vector<device*>& devices, const model& of,
                             engine_options options);

// Pages of KV are allocated in multiples of so many, for each layer.
std::uint32_t kv_pages_together();

// Bytes of one page of a layer's KV.
std::uint64_t kv_page_bytes(const model& of);

}  // namespace terrane::engine
