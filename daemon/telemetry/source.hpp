// Telemetry: what the daemon knows of the machine besides its own accounts. One class a source, one
// file each; a source adds its readings to a snapshot that already lists devices, parts and
// sessions. Sources belong to the control loop and are called on its thread; a call must not block.
// Adding one: a class here and a line in make_sources().
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.hpp"
#include "engine/device/device.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

class telemetry_source {
 public:
  virtual ~telemetry_source() = default;
  virtual std::string_view name() const = 0;  // a constant
  // Adds what it can measure now, at s.time_ms. What it cannot stays absent, or keeps the time of
  // the sample it had before, and goes stale. A reading is written whole; the snapshot's builder
  // puts the source's name on those that have none.
  virtual void sample(policies::snapshot& s) = 0;
  // What is wrong with the source now, for status and journal; empty if nothing.
  virtual std::string trouble() const { return {}; }
};
using telemetry_sources = std::vector<std::unique_ptr<telemetry_source>>;

struct nvml_options {
  std::string file;  // of the library; empty: the driver's, by its usual name
  // How long a sample waits for answers; what comes later is seen by the next.
  std::chrono::milliseconds patience{20};
  std::chrono::milliseconds longest_end{1000};  // that the source's end waits for an answer
};

// In the order in which they are asked: a later one overrides an earlier one. `configured`: of each
// device.
telemetry_sources make_sources(const config& c, std::span<const device_config> configured,
                               std::span<engine::device* const> devices,
                               const nvml_options& nvml = {});
// Puts what each source measures now into the snapshot, with the source's name.
void sample_all(const telemetry_sources& sources, policies::snapshot& s);

std::unique_ptr<telemetry_source> make_device_memory_source(
    std::span<engine::device* const> devices, std::vector<std::uint64_t> reserve_bytes,
    std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_host_memory_source(const std::string& proc,
                                                          std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_pressure_source(const std::string& proc,
                                                       std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_processors_source(const std::string& proc,
                                                         std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_power_supply_source(const std::string& sys,
                                                           std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_nvml_source(std::span<engine::device* const> devices,
                                                   nvml_options options, std::int32_t period_ms);
// What a clock on the wall shows; a test's shows what it says.
using local_clock = std::function<std::tm()>;
std::tm local_time();
std::unique_ptr<telemetry_source> make_wall_clock_source(local_clock now, std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_hwmon_source(const std::string& sys, std::int32_t period_ms);
std::unique_ptr<telemetry_source> make_file_source(std::filesystem::path file,
                                                   std::int32_t period_ms);

}  // namespace terrane::daemon
