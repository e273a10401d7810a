// Copies between memory of two devices, by the best way the pair has: their own direct path where
// one was probed, else straight to or from memory that this process reaches, else through a buffer
// of it. Any thread; the caller keeps apart what running command lists touch.
#pragma once

#include <functional>
#include <span>

#include "engine/device/device.hpp"

namespace terrane::engine {

// Called with bytes done so far; returns false to give up.
using copy_progress = std::function<bool(std::uint64_t bytes)>;

// Complete on return. Fails with device_fault, or cancelled.
result<void> copy_between(device& from, const device_memory& source, std::size_t source_offset,
                          device& to, device_memory& target, std::size_t target_offset,
                          std::size_t bytes, const copy_progress& progress = {});

// Several at once: a direct path then pays for waiting once.
result<void> copy_between(device& from, device& to, std::span<const copy_range> ranges);
// The same while neither device runs a list, by the thread that submits: a processor among the two
// then gives all its workers to what passes through this process.
result<void> copy_between_idle(device& from, device& to, std::span<const copy_range> ranges);

}  // namespace terrane::engine
