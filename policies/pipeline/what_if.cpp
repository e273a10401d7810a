#include "policies/pipeline/what_if.hpp"

#include <algorithm>
#include <cmath>

#include "policies/rule/value_set.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
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

// What was decided after some time is what would be decided on the snapshot that was asked about: a
// dry run is of its moment, and its numbers will be given again.
decision dry_run_on(const snapshot& asked, decision d) {
  d.planned.snapshot_sequence = asked.sequence;
  for (planned_move& m : d.planned.moves) m.id = m.decision = 0;
  for (decision_record& r : d.records) {
    r.id = 0;
    r.time_ms = asked.time_ms;
    r.snapshot_sequence = asked.sequence;
    for (planned_move& m : r.moves) m.id = m.decision = 0;
  }
  return d;
}

std::string said_of(unit u) {
  const auto row = std::ranges::find(measures(), u, &word<unit>::value);
  return row == measures().end() ? "" : std::string(row->says);
}

// Why the device whose reading this has just become cannot have so many bytes.
std::string why_too_much(const snapshot& s, const metric_entry& m, double bytes) {
  if (m.measured_in != unit::bytes || m.device_field == nullptr) return {};
  for (const device_state& d : s.devices) {
    const bool is_more = d.vram_total.present() && bytes > d.vram_total.value;
    if (is_more && (d.*m.device_field).value == bytes)
      return d.name + " has only " + format_bytes(d.vram_total.value);
  }
  return {};
}

}  // namespace

std::string assume(snapshot& s, const assumption& a) {
  const metric_entry* metric = find_metric(a.metric);
  if (metric == nullptr)
    return "there is no metric '" + a.metric + "'" + name_hint(a.metric, metric_names());
  if (!std::isfinite(a.value)) return "the value of '" + a.metric + "' must be a number";
  if (!is_possible(metric->measured_in, a.value)) {
    return "'" + a.metric + "' is never " + format_quantity(a.value, metric->measured_in) +
           ": it is " + said_of(metric->measured_in);
  }
  if (std::string why = set_reading(s, a.object, *metric, {a.value, s.time_ms, 1000}); !why.empty())
    return why;
  return why_too_much(s, *metric, a.value);
}

decision evaluate_as_if_held(const policy_set& set, const snapshot& asked, pipeline_state& state) {
  snapshot now = asked;
  // Long steps pass holds as well as short ones: what must hold is judged by the samples' times.
  for (std::int64_t waited = 0, by = step_ms; waited <= longest_ms; waited += by, by *= 2) {
    decision d = evaluate(set, now, state);
    if (!d.records.empty()) return dry_run_on(asked, std::move(d));
    advance(now, by);
  }
  return {};
}

}  // namespace terrane::policies
