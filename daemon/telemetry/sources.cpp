#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

telemetry_sources make_sources(const config& c, std::span<const device_config> configured,
                               std::span<engine::device* const> devices) {
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
  if (!c.readings_file.empty()) sources.push_back(make_file_source(c.readings_file, period));
  return sources;
}

}  // namespace terrane::daemon
