#include "daemon/telemetry/source.hpp"
#include "policies/vocabulary/set_reading.hpp"

namespace terrane::daemon {

telemetry_sources make_sources(const config& c, std::span<const device_config> configured,
                               std::span<engine::device* const> devices, const nvml_options& nvml) {
  const auto period = static_cast<std::int32_t>(c.period_ms);
  std::vector<std::uint64_t> reserves;
  for (const device_config& d : configured) reserves.push_back(d.reserve_bytes);
  telemetry_sources sources;
  sources.push_back(make_device_memory_source(devices, std::move(reserves), period));
  sources.push_back(make_host_memory_source("/proc", period));
  sources.push_back(make_pressure_source("/proc", period));
  sources.push_back(make_processors_source("/proc", period));
  sources.push_back(make_power_supply_source("/sys", period));
  sources.push_back(make_wall_clock_source(local_time, period));
  sources.push_back(make_hwmon_source("/sys", period));
  sources.push_back(make_nvml_source(devices, nvml, period));
  if (!c.readings_file.empty()) sources.push_back(make_file_source(c.readings_file, period));
  return sources;
}

void sample_all(const telemetry_sources& sources, policies::snapshot& s) {
  for (const auto& source : sources) {
    source->sample(s);
    policies::for_each_reading(s, [&](policies::reading& r) {
      if (r.present() && r.source.empty()) r.source = source->name();
    });
  }
}

}  // namespace terrane::daemon
