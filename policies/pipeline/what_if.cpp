#include "policies/pipeline/what_if.hpp"

#include <cmath>

#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

namespace {

// Steps of a second until a day has passed: no policy waits longer.
constexpr std::int64_t step_ms = 1000, longest_ms = 86'400'000;

void advance(snapshot& s, std::int64_t by_ms) {
  s.sequence++;
  s.time_ms += by_ms;
  s.completed.clear();
  for_each_reading(s, [&](reading& r) {
    if (r.present()) r.sampled_ms = s.time_ms;
  });
}

decision without_numbers(decision d) {
  for (planned_move& m : d.planned.moves) m.id = m.decision = 0;
  for (decision_record& r : d.records) {
    r.id = 0;
    for (planned_move& m : r.moves) m.id = m.decision = 0;
  }
  return d;
}

}  // namespace

std::string assume(snapshot& s, const assumption& a) {
  const metric_entry* metric = find_metric(a.metric);
  if (metric == nullptr)
    return "there is no metric '" + a.metric + "'" + name_hint(a.metric, metric_names());
  if (!std::isfinite(a.value)) return "the value of '" + a.metric + "' must be a number";
  return set_reading(s, a.object, *metric, {a.value, s.time_ms, 1000});
}

decision evaluate_as_if_held(const policy_set& set, snapshot now, pipeline_state& state) {
  // Long steps pass holds as well as short ones: what must hold is judged by the samples' times.
  for (std::int64_t waited = 0, by = step_ms; waited <= longest_ms; waited += by, by *= 2) {
    decision d = evaluate(set, now, state);
    if (!d.records.empty()) return without_numbers(std::move(d));
    advance(now, by);
  }
  return {};
}

}  // namespace terrane::policies
