// What NVML says of one card, asked all at once. A value that the card does not offer, or that
// cannot be (a temperature of 4 billion degrees), is absent.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/telemetry/nvml/library.hpp"

namespace terrane::daemon::nvml {

// Opened by whoever needs it first, once, and shared by the threads that ask. Any thread.
class shared_library {
 public:
  explicit shared_library(std::string path) : path_(std::move(path)) {}
  const result<library>& get();
  // Once get() gave one: nvmlInit, until it has succeeded; a driver that is not loaded may be
  // later.
  int start();

 private:
  std::string path_;
  std::once_flag once_;
  std::optional<result<library>> opened_;
  std::atomic<bool> started_{false};
};

struct card_readings {
  std::optional<double> memory_used_bytes;    // by everybody, what the driver reserves included
  std::optional<double> process_bytes;        // of those, by this process
  std::optional<double> other_process_bytes;  // by all other processes; absent if one is not told
  std::optional<double> temp_c, slowdown_c, shutdown_c;
  std::optional<double> power_w, power_limit_w;
  std::optional<double> utilisation;                            // 0 to 1
  std::optional<double> fan_ratio;                              // 0 to 1, or a little more
  std::optional<double> throttled_by_heat, throttled_by_power;  // 1 or 0

  // NVML is there and has no card of that name: it belongs to another driver.
  bool unknown = false;
  bool no_library = false;
  std::string trouble;  // the first thing that went wrong, for people; empty: nothing
};

// `uuid`: as engine::device_info::card has it. Blocks for as long as the driver takes.
card_readings read_card(shared_library& from, const std::string& uuid);

}  // namespace terrane::daemon::nvml
