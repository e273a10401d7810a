#include "policies/vocabulary/set_reading.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

reading scaled(const reading& r, double value) { return {value, r.sampled_ms, r.period_ms, {}}; }

bool set_session(session_state& session, metric_id metric, const reading& value,
                 const model_state& model) {
  const auto tokens = [](double v) { return static_cast<std::uint64_t>(std::max(0.0, v)); };
  switch (metric) {
    case metric_id::context_tokens:
      session.context_tokens = tokens(value.value);
      return true;
    case metric_id::context_used_ratio:
      if (model.context_tokens == 0) return false;
      session.context_tokens = tokens(value.value * static_cast<double>(model.context_tokens));
      return true;
    case metric_id::idle_s:
      session.idle_s = value.value;
      return true;
    default:
      return false;
  }
}

}  // namespace

bool set_reading(device_state& device, metric_id id, const reading& value) {
  const metric_entry& m = metric(id);
  if (m.device_field != nullptr) {
    device.*m.device_field = value;
    return true;
  }
  switch (id) {
    case metric_id::vram_used_ratio:
      if (!device.vram_total.present()) return false;
      device.vram_used = scaled(value, value.value * device.vram_total.value);
      return true;
    case metric_id::temp_margin_c:
      if (!device.temp_limit_c.present()) return false;
      device.temp_c = scaled(value, device.temp_limit_c.value - value.value);
      return true;
    case metric_id::power_ratio:
      if (!device.power_limit_w.present()) return false;
      device.power_w = scaled(value, value.value * device.power_limit_w.value);
      return true;
    default:
      return false;
  }
}

bool set_reading(host_state& host, metric_id id, const reading& value) {
  const metric_entry& m = metric(id);
  if (m.host_field != nullptr) {
    host.*m.host_field = value;
    return true;
  }
  if (id != metric_id::host_memory_used_ratio || !host.memory_total.present()) return false;
  host.memory_available = scaled(value, (1 - value.value) * host.memory_total.value);
  return true;
}

std::string set_reading(snapshot& s, const std::string& object, const metric_entry& metric,
                        const reading& value) {
  const auto refused = [&](const char* of) {
    return "'" + std::string(metric.name) + "' of " + of + " cannot be given by hand";
  };
  if (object == "host") return set_reading(s.host, metric.id, value) ? "" : refused("the host");
  for (device_state& d : s.devices) {
    if (d.name != object && !d.name.starts_with(object + ":")) continue;
    return set_reading(d, metric.id, value) ? "" : refused("a device");
  }
  for (session_state& one : s.sessions) {
    if (one.id != object) continue;
    return set_session(one, metric.id, value, s.model) ? "" : refused("a session");
  }
  std::string known = "host";
  for (const device_state& d : s.devices) known += ", " + d.name;
  return "there is no device or session '" + object + "'; known: " + known;
}

void for_each_reading(snapshot& s, const std::function<void(reading&)>& f) {
  for (const metric_entry& m : metrics()) {
    if (m.host_field != nullptr) f(s.host.*m.host_field);
  }
  for (device_state& d : s.devices) {
    f(d.vram_reserved);  // which is no metric
    for (const metric_entry& m : metrics()) {
      if (m.device_field != nullptr) f(d.*m.device_field);
    }
  }
}

}  // namespace terrane::policies
