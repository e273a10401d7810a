#include "daemon/service/what_if.hpp"

#include <algorithm>

#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

namespace {

// Steps of a second until a day has passed: no policy waits longer.
constexpr std::int64_t step_ms = 1000, longest_ms = 86'400'000;

void refresh(policies::reading& r, std::int64_t now_ms) {
  if (r.present()) r.sampled_ms = now_ms;
}

void advance(policies::snapshot& s, std::int64_t by_ms) {
  s.sequence++;
  s.time_ms += by_ms;
  s.completed.clear();
  for (policies::reading* r :
       {&s.host.memory_total, &s.host.memory_available, &s.host.pressure_some_avg10})
    refresh(*r, s.time_ms);
  for (policies::device_state& d : s.devices)
    for (policies::reading* r :
         {&d.vram_total, &d.vram_used, &d.vram_free, &d.vram_reserved, &d.vram_ours, &d.temp_c})
      refresh(*r, s.time_ms);
}

}  // namespace

std::string assume(policies::snapshot& s, const ipc::assumption& a) {
  const policies::metric_entry* m = policies::find_metric(a.metric);
  if (m == nullptr) return "there is no metric '" + a.metric + "'";
  const policies::reading value{a.value, s.time_ms, 1000};
  using enum policies::metric_id;
  if (a.object == "host") {
    if (m->id == host_memory_available)
      s.host.memory_available = value;
    else if (m->id == host_memory_total)
      s.host.memory_total = value;
    else if (m->id == host_pressure)
      s.host.pressure_some_avg10 = value;
    else
      return "'" + a.metric + "' cannot be assumed for the host";
    return {};
  }
  for (policies::device_state& d : s.devices) {
    if (d.name != a.object && !d.name.starts_with(a.object + ":")) continue;
    if (m->id == vram_used_ratio)
      d.vram_used = {a.value * d.vram_total.value, s.time_ms, 1000};
    else if (m->id == vram_used)
      d.vram_used = value;
    else if (m->id == vram_free)
      d.vram_free = value;
    else if (m->id == vram_total)
      d.vram_total = value;
    else if (m->id == temp_c)
      d.temp_c = value;
    else
      return "'" + a.metric + "' cannot be assumed for a device";
    return {};
  }
  for (policies::session_state& one : s.sessions) {
    if (one.id != a.object) continue;
    if (m->id == context_tokens)
      one.context_tokens = static_cast<std::uint64_t>(std::max(0.0, a.value));
    else if (m->id == idle_s)
      one.idle_s = a.value;
    else
      return "'" + a.metric + "' cannot be assumed for a session";
    return {};
  }
  return "there is no device or session '" + a.object + "'";
}

policies::decision evaluate_as_if_held(const policies::policy_set& set, policies::snapshot now,
                                       policies::pipeline_state& state) {
  // Long steps pass holds as well as short ones: what must hold is judged by the samples' times.
  for (std::int64_t waited = 0, by = step_ms; waited <= longest_ms; waited += by, by *= 2) {
    policies::decision d = policies::evaluate(set, now, state);
    if (!d.records.empty()) return d;
    advance(now, by);
  }
  return {};
}

std::vector<ipc::condition_info> conditions(const std::vector<policies::condition_value>& from) {
  std::vector<ipc::condition_info> out;
  for (const policies::condition_value& c : from) {
    ipc::condition_info i;
    i.metric = std::string(policies::metric(c.metric).name);
    i.side = c.compare == policies::comparison::above ? ipc::condition_side::above
                                                      : ipc::condition_side::below;
    i.limit = c.limit;
    if (c.judged != policies::verdict::missing) {
      i.value = c.value;
      i.age_s = static_cast<double>(c.age_ms) / 1000.0;
    }
    i.verdict = static_cast<ipc::condition_verdict>(c.judged);
    i.met_for_s = static_cast<double>(c.met_for_ms) / 1000.0;
    i.needed_s = static_cast<double>(c.held_ms) / 1000.0;
    out.push_back(std::move(i));
  }
  return out;
}

}  // namespace terrane::daemon
