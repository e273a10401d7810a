#include "daemon/telemetry/by_hand.hpp"

#include <algorithm>

namespace terrane::daemon {

namespace {

using policies::metric_id;
using policies::reading;

bool set_host(policies::host_state& host, metric_id metric, const reading& value) {
  switch (metric) {
    case metric_id::host_memory_available:
      host.memory_available = value;
      return true;
    case metric_id::host_memory_total:
      host.memory_total = value;
      return true;
    case metric_id::host_pressure:
      host.pressure_some_avg10 = value;
      return true;
    default:
      return false;
  }
}

bool set_device(policies::device_state& device, metric_id metric, const reading& value) {
  switch (metric) {
    case metric_id::vram_used_ratio:
      device.vram_used = {value.value * device.vram_total.value, value.sampled_ms, value.period_ms};
      return true;
    case metric_id::vram_used:
      device.vram_used = value;
      return true;
    case metric_id::vram_free:
      device.vram_free = value;
      return true;
    case metric_id::vram_total:
      device.vram_total = value;
      return true;
    case metric_id::temp_c:
      device.temp_c = value;
      return true;
    default:
      return false;
  }
}

bool set_session(policies::session_state& session, metric_id metric, const reading& value) {
  switch (metric) {
    case metric_id::context_tokens:
      session.context_tokens = static_cast<std::uint64_t>(std::max(0.0, value.value));
      return true;
    case metric_id::idle_s:
      session.idle_s = value.value;
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string set_reading(policies::snapshot& s, const std::string& object,
                        const policies::metric_entry& metric, const reading& value) {
  const auto refused = [&](const char* of) {
    return "'" + std::string(metric.name) + "' of " + of + " cannot be given by hand";
  };
  if (object == "host") return set_host(s.host, metric.id, value) ? "" : refused("the host");
  for (policies::device_state& d : s.devices) {
    if (d.name != object && !d.name.starts_with(object + ":")) continue;
    return set_device(d, metric.id, value) ? "" : refused("a device");
  }
  for (policies::session_state& one : s.sessions) {
    if (one.id != object) continue;
    return set_session(one, metric.id, value) ? "" : refused("a session");
  }
  std::string known = "host";
  for (const policies::device_state& d : s.devices) known += ", " + d.name;
  return "there is no device or session '" + object + "'; known: " + known;
}

void for_each_reading(policies::snapshot& s, const std::function<void(reading&)>& f) {
  for (reading* r : {&s.host.memory_total, &s.host.memory_available, &s.host.pressure_some_avg10})
    f(*r);
  for (policies::device_state& d : s.devices) {
    for (reading* r :
         {&d.vram_total, &d.vram_used, &d.vram_free, &d.vram_reserved, &d.vram_ours, &d.temp_c})
      f(*r);
  }
}

}  // namespace terrane::daemon
