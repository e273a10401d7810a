#include "daemon/telemetry/nvml/library.hpp"

#include <initializer_list>

#include <dlfcn.h>

namespace terrane::daemon::nvml {

namespace {

class symbols {
 public:
  explicit symbols(void* opened) : opened_(opened) {}

  // The first of the names that the library has: newer names come first.
  template <class F>
  void find(F*& to, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      to = reinterpret_cast<F*>(dlsym(opened_, name));
      if (to != nullptr) return;
    }
    lacking_ += (lacking_.empty() ? "" : ", ") + std::string(*names.begin());
  }
  const std::string& lacking() const { return lacking_; }

 private:
  void* opened_;
  std::string lacking_;
};

}  // namespace

std::string library::text_of(int error) const {
  const char* text = error_string != nullptr ? error_string(error) : nullptr;
  return text != nullptr && *text != '\0' ? text : "NVML error " + std::to_string(error);
}

result<library> open_library(const std::string& path) {
  void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr)
    return fail(error_code::unsupported,
                path +
                    " cannot be opened, so nothing is known of NVIDIA cards' heat, power and use; "
                    "it comes with the driver (in a container: with its capability 'utility')",
                "NVML");
  library l;
  symbols in(opened);
  in.find(l.init, {"nvmlInit_v2"});
  in.find(l.handle_by_uuid, {"nvmlDeviceGetHandleByUUID"});
  if (!in.lacking().empty())
    return fail(error_code::unsupported,
                "the NVIDIA driver is too old for telemetry: " + path + " lacks " + in.lacking() +
                    "; driver 525 or newer has it",
                "NVML");
  in.find(l.error_string, {"nvmlErrorString"});
  in.find(l.memory, {"nvmlDeviceGetMemoryInfo"});
  in.find(l.temperature, {"nvmlDeviceGetTemperature"});
  in.find(l.temperature_threshold, {"nvmlDeviceGetTemperatureThreshold"});
  in.find(l.power_mw, {"nvmlDeviceGetPowerUsage"});
  in.find(l.power_limit_mw, {"nvmlDeviceGetEnforcedPowerLimit"});
  in.find(l.utilisation, {"nvmlDeviceGetUtilizationRates"});
  in.find(l.throttle_reasons,
          {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  in.find(l.fan_percent, {"nvmlDeviceGetFanSpeed"});
  in.find(l.compute_processes,
          {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  in.find(l.graphics_processes,
          {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  l.lacking = in.lacking();
  return l;
}

}  // namespace terrane::daemon::nvml
