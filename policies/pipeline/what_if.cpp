#include "policies/pipeline/what_if.hpp"

#include <algorithm>
#include <cmath>

#include "policies/planner/shared_matrix.hpp"
#include "policies/rule/value_set.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

namespace {

// Steps of a second until a day has passed: no policy waits longer.
constexpr std::int64_t step_ms = 1000, longest_ms = 86'400'000;
// What happens to a move by hand later is no matter of that move.
constexpr std::int64_t foreseen_ms = 600'000;

void advance(snapshot& s, std::int64_t by_ms) {
  s.sequence++;
  s.time_ms += by_ms;
  s.completed.clear();
  for_each_reading(s, [&](reading& r) {
    if (r.present()) r.sampled_ms = s.time_ms;
  });
}

// The first decision of which `ends` holds, within so long; an empty one where there is none. Long
// steps pass holds as well as short ones: what must hold is judged by the samples' times.
template <class Ends>
decision tick_until(const policy_set& set, snapshot& now, pipeline_state& state,
                    std::int64_t within_ms, Ends ends) {
  for (std::int64_t waited = 0, by = step_ms; waited <= within_ms; waited += by, by *= 2) {
    decision d = evaluate(set, now, state);
    if (ends(d)) return d;
    advance(now, by);
  }
  return {};
}

void take(snapshot& s, const std::string& device, double bytes) {
  const device_state* at = find_device(s, device);
  if (at == nullptr) return;
  for (device_state& d : s.devices) {
    if (!share_memory(d, *at)) continue;
    if (d.vram_used.present()) d.vram_used.value += bytes;
    if (d.vram_free.present()) d.vram_free.value -= bytes;
    if (&d == at && d.vram_ours.present()) d.vram_ours.value += bytes;
  }
}

void put_by_hand(snapshot& s, part_state& part, const std::string& device) {
  const moved_bytes m =
      bytes_of_move(s, part, device, [](const part_state& p) { return p.device; });
  take(s, device, static_cast<double>(m.taken));
  take(s, part.device, -static_cast<double>(m.freed));
  part.device = device;
  part.moved_ms = reading::never;  // how long it has to stay only puts off what would be done
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
  if (!is_possible(metric->id, a.value)) {
    return "'" + a.metric + "' is never " + format_quantity(a.value, metric->measured_in) +
           ": it is " + (metric->most ? "a share, not below 0" : said_of(metric->measured_in));
  }
  if (std::string why = set_reading(s, a.object, *metric, {a.value, s.time_ms, 1000}); !why.empty())
    return why;
  return why_too_much(s, *metric, a.value);
}

decision evaluate_as_if_held(const policy_set& set, const snapshot& asked, pipeline_state& state) {
  snapshot now = asked;
  return dry_run_on(asked, tick_until(set, now, state, longest_ms,
                                      [](const decision& d) { return !d.records.empty(); }));
}

std::vector<planned_move> taken_away_again(const policy_set& set, snapshot now,
                                           pipeline_state state,
                                           const std::vector<std::string>& parts,
                                           const std::string& device) {
  for (part_state& p : now.parts) {
    if (std::ranges::find(parts, p.name) == parts.end()) continue;
    if (p.device != device) put_by_hand(now, p, device);
    p.placed_by_user = true;  // also where it is there already
  }
  const auto leaves = [&](const planned_move& m) {
    return m.kind == subject_kind::part && m.from == device &&
           std::ranges::find(parts, m.subject) != parts.end();
  };
  decision d = tick_until(set, now, state, foreseen_ms, [&](const decision& one) {
    return std::ranges::any_of(one.planned.moves, leaves);
  });
  std::erase_if(d.planned.moves, [&](const planned_move& m) { return !leaves(m); });
  return dry_run_on(now, std::move(d)).planned.moves;
}

}  // namespace terrane::policies
