// The host's memory (/proc/meminfo), pressure (/proc/pressure/memory and cpu) and temperatures
// (hwmon).
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "daemon/telemetry/source.hpp"
#include "engine/device/cpu/host_memory.hpp"

namespace terrane::daemon {

namespace {

class host_memory_source final : public telemetry_source {
 public:
  host_memory_source(const std::string& proc, std::int32_t period_ms)
      : proc_(proc), period_ms_(period_ms) {}
  std::string_view name() const override { return "host memory"; }

  void sample(policies::snapshot& s) override {
    const std::optional<engine::host_memory> m = engine::read_host_memory(proc_);
    if (!m) return;
    s.host.memory_total = {static_cast<double>(m->total_bytes), s.time_ms, period_ms_};
    s.host.memory_available = {static_cast<double>(m->available_bytes), s.time_ms, period_ms_};
  }

 private:
  std::string proc_;
  std::int32_t period_ms_;
};

class pressure_source final : public telemetry_source {
 public:
  pressure_source(const std::string& proc, std::int32_t period_ms)
      : folder_(proc + "/pressure/"), period_ms_(period_ms) {}
  std::string_view name() const override { return "pressure"; }

  void sample(policies::snapshot& s) override {
    read(folder_ + "memory", s, s.host.pressure_some_avg10);
    read(folder_ + "cpu", s, s.host.cpu_pressure);
  }

 private:
  void read(const std::string& path, const policies::snapshot& s, policies::reading& to) const {
    std::ifstream in(path);
    std::string some, average;
    if (!(in >> some >> average) || some != "some" || !average.starts_with("avg10=")) return;
    try {
      to = {std::stod(average.substr(6)), s.time_ms, period_ms_};
    } catch (const std::exception&) {  // a kernel that writes it otherwise: no reading
    }
  }

  std::string folder_;
  std::int32_t period_ms_;
};

// Temperatures of the processor package and of GPUs that a kernel driver shows (amdgpu, nouveau,
// i915).
class hwmon_source final : public telemetry_source {
 public:
  hwmon_source(const std::string& sys, std::int32_t period_ms) : period_ms_(period_ms) {
    std::error_code ignored;
    for (const auto& chip : std::filesystem::directory_iterator(sys + "/class/hwmon", ignored)) {
      std::string name;
      std::ifstream(chip.path() / "name") >> name;
      const std::filesystem::path input = chip.path() / "temp1_input";
      if (!std::filesystem::exists(input, ignored)) continue;
      if (name == "coretemp" || name == "k10temp" || name == "zenpower" || name == "cpu_thermal")
        cpu_.push_back(input);
      if (name == "amdgpu" || name == "nouveau" || name == "i915" || name == "xe")
        gpu_.push_back(input);
    }
  }
  std::string_view name() const override { return "hwmon"; }

  void sample(policies::snapshot& s) override {
    const std::optional<double> cpu = hottest(cpu_);
    // hwmon names no Vulkan device; with one card there is no doubt which it is.
    std::size_t gpus = 0;
    for (const policies::device_state& d : s.devices)
      gpus += d.kind == policies::device_kind::gpu ? 1 : 0;
    const std::optional<double> gpu = gpus == 1 && gpu_.size() == 1 ? hottest(gpu_) : std::nullopt;
    for (policies::device_state& d : s.devices) {
      const std::optional<double>& t = d.kind == policies::device_kind::cpu ? cpu : gpu;
      if (t) d.temp_c = {*t, s.time_ms, period_ms_};
    }
  }

 private:
  static std::optional<double> hottest(const std::vector<std::filesystem::path>& inputs) {
    std::optional<double> most;
    for (const auto& input : inputs) {
      double millidegrees = 0;
      if (std::ifstream(input) >> millidegrees)
        most = std::max(most.value_or(-273.0), millidegrees / 1000);
    }
    return most;
  }

  std::int32_t period_ms_;
  std::vector<std::filesystem::path> cpu_, gpu_;
};

}  // namespace

std::unique_ptr<telemetry_source> make_host_memory_source(const std::string& proc,
                                                          std::int32_t period_ms) {
  return std::make_unique<host_memory_source>(proc, period_ms);
}
std::unique_ptr<telemetry_source> make_pressure_source(const std::string& proc,
                                                       std::int32_t period_ms) {
  return std::make_unique<pressure_source>(proc, period_ms);
}
std::unique_ptr<telemetry_source> make_hwmon_source(const std::string& sys,
                                                    std::int32_t period_ms) {
  return std::make_unique<hwmon_source>(sys, period_ms);
}

}  // namespace terrane::daemon
