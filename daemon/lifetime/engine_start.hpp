// Starts the engine that a configuration asks for: opens the model and its devices, loads the
// weights. Takes as long as that takes; any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/placement/load_plan.hpp"
#include "daemon/telemetry/source.hpp"
#include "engine/device/discovery.hpp"
#include "engine/device/paths.hpp"
#include "engine/engine.hpp"

namespace terrane::daemon {

struct start_settings {
  std::string cache_folder;  // of compiled kernels
  std::function<result<std::unique_ptr<engine::device>>(const std::string& name,
                                                        const engine::device_settings& settings)>
      open_device = engine::open_device;
  // Asked between the steps of a start, and while weights are loaded: false gives the start up.
  engine::load_progress progress;
  // Told what the configuration wants and does not get, in a sentence each.
  std::function<void(const std::string& sentence)> warn;
  engine::session_observer on_session;
  // Told on the engine's thread what became of what was on devices that were lost.
  std::function<void(const engine::refuge_report& report, const std::string& sentence)> on_refuge;
};

struct started_engine {
  std::unique_ptr<engine::inference_engine> engine;
  std::vector<device_config> devices;  // as the engine counts them
  // Devices of the machine that cannot be used, and why.
  std::vector<engine::device_candidate> refused;
  std::vector<engine::copy_path> paths;  // between the engine's devices
  std::optional<load_plan> planned;      // with start_on: automatic
};

// A device that cannot be opened, or fails the self-test of the numeric contract, is left out and
// the others are used. Fails with what is wrong with the model; when no device is left, or start_on
// names one that was left out; or with `cancelled`.
result<started_engine> start_engine(const config& c, const start_settings& settings);

// Whether the configured model fits the configured devices, before a byte of its weights is read:
// where, with which context, how fast; or what blocks. As text, or as JSON.
result<std::string> describe_fit(const config& c, const start_settings& settings, bool json);

// What the daemon's telemetry sees of the host and the configured devices now, each reading with
// its source and age. Opens the devices, no model; takes two samples and the time between them.
result<std::string> describe_telemetry(const config& c, const start_settings& settings,
                                       const nvml_options& nvml, bool json);

}  // namespace terrane::daemon
