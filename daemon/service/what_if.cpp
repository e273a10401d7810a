#include "daemon/service/what_if.hpp"

#include "daemon/service/to_protocol.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

namespace {

// Steps of a second until a day has passed: no policy waits longer.
constexpr std::int64_t step_ms = 1000, longest_ms = 86'400'000;

void advance(policies::snapshot& s, std::int64_t by_ms) {
  s.sequence++;
  s.time_ms += by_ms;
  s.completed.clear();
  policies::for_each_reading(s, [&](policies::reading& r) {
    if (r.present()) r.sampled_ms = s.time_ms;
  });
}

}  // namespace

std::string assume(policies::snapshot& s, const ipc::assumption& a) {
  const policies::metric_entry* metric = policies::find_metric(a.metric);
  if (metric == nullptr)
    return "there is no metric '" + a.metric + "'" +
           policies::name_hint(a.metric, policies::metric_names());
  return policies::set_reading(s, a.object, *metric, {a.value, s.time_ms, 1000});
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
    i.unit = to_protocol(policies::metric(c.metric).measured_in);
    i.side = to_protocol(c.compare);
    i.limit = c.limit;
    if (i.side == ipc::condition_side::within || i.side == ipc::condition_side::outside)
      i.upper = c.upper;
    if (c.judged != policies::verdict::missing) {
      i.value = c.value;
      i.age_s = static_cast<double>(c.age_ms) / 1000.0;
    }
    i.verdict = to_protocol(c.judged);
    i.met_for_s = static_cast<double>(c.met_for_ms) / 1000.0;
    i.needed_s = static_cast<double>(c.held_ms) / 1000.0;
    out.push_back(std::move(i));
  }
  return out;
}

}  // namespace terrane::daemon
