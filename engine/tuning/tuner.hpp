// Finds the best layout of kernels on a device by running them there over made-up numbers.
//
// Every candidate must give the bits of the default on the same numbers, or it is dropped with a
// warning; a layout is only taken when it is clearly faster, in runs that alternate with the
// default's. What is found is remembered on disk (tuning_file.hpp), so that a device is timed once.
//
// On one thread, while nothing else submits to the device.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

// A kernel that a model has, and how many times a step runs it.
struct kernel_use {
  kernel_shape shape;
  std::uint64_t times = 1;
};

struct tuning_progress {
  std::string device;
  std::size_t done = 0, total = 0;  // kernels
  std::string kernel;               // that is timed next; empty at the end
};

struct tuner_settings {
  std::string cache_folder;  // empty: nothing is remembered
  // For all kernels. Empty: nothing is timed, only what is remembered is used.
  std::optional<std::chrono::milliseconds> budget;
  bool again = false;  // times kernels anew that are remembered
  // At most so much memory is read over between two launches of a kernel.
  std::size_t read_over_bytes = std::size_t{256} << 20;
  std::function<bool(const tuning_progress&)> progress;  // returns false to give up; may be empty
  std::function<void(const std::string& sentence)> warn;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct tuning_report {
  std::size_t timed = 0, remembered = 0;
  std::size_t left = 0;  // kernels that keep the default because the time was over
  bool given_up = false;
};

// The device's tuning has all of the kernels afterwards. Kernels that the budget did not reach are
// remembered, too, so that a later start is not slowed down; given up, they are not.
tuning_report tune(device& on, std::span<const kernel_use> uses, const tuner_settings& settings);

}  // namespace terrane::engine
