#include "policies/planner/ledger.hpp"

#include <algorithm>

#include "policies/planner/objects.hpp"
#include "policies/planner/under_way.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

// Whether the rule is judged for this device, or for the host when the device is the CPU's.
bool watches(const rule& r, const device_state& d) {
  if (r.for_each == scope::host) return d.kind == device_kind::cpu;
  return is_device_scope(r.for_each) && in_scope(r.for_each, d) && is_about(r, d.name);
}

}  // namespace

bool relieves(const term& t) {
  if (t.compare == comparison::is) return t.limit != 0;
  const bool of_room = t.metric == metric_id::vram_free ||
                       t.metric == metric_id::host_memory_available ||
                       t.metric == metric_id::temp_margin_c;
  return (t.compare == comparison::below) == of_room;
}

bool relieves(const rule& r) {
  if (std::holds_alternative<promotion_action>(r.action)) return false;
  const bool on_device = is_device_scope(r.for_each) || r.for_each == scope::host;
  const auto brings_down = [](const term& t) { return relieves(t); };
  return on_device && std::ranges::any_of(r.enter.terms, brings_down);
}

ledger::ledger(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state)
    : now_(now) {
  for (const device_state& d : now.devices) accounts_.push_back(open(d, rules));
  for (const auto& [id, issued] : state.issued) {
    const device_state* to = find_device(now, issued.move.to);
    if (to != nullptr && !has_begun(now, id)) book(*to, static_cast<double>(issued.move.bytes));
  }
  for (std::size_t i = 0; i < rules.size() && i < state.policies.size(); ++i) {
    if (rules[i].mode != rule_mode::enforce) continue;
    const bool relieving = relieves(rules[i]);
    for (const object_latch& l : state.policies[i].latches) {
      if (l.latch.phase != latch_phase::engaged) continue;
      if (!relieving && !l.latch.yielding) continue;
      const device_state* d =
          rules[i].for_each == scope::host ? find_cpu(now) : find_device(now, l.object);
      if (d == nullptr) continue;
      accounts_[static_cast<std::size_t>(d - now.devices.data())].relieved_by = &rules[i];
    }
  }
}

ledger::account ledger::open(const device_state& d, const std::vector<rule>& rules) const {
  account a;
  const reading free = free_bytes(d);
  if (!free.present()) {
    a.bound = "no source reports its free memory";
    return a;
  }
  if (free.stale(now_.time_ms)) {
    a.bound = "the reading of its free memory is " +
              format_duration(now_.time_ms - free.sampled_ms) + " old";
    return a;
  }
  a.room = free.value;
  a.bound = "free";
  if (d.vram_reserved.present() && d.vram_reserved.value > 0) {
    a.room = free.value - d.vram_reserved.value;
    a.bound = "free after its reserve of " + format_quantity(d.vram_reserved.value, unit::bytes);
  }
  bound_by_rules(a, d, rules);
  return a;
}

// A policy that relieves a device does so down to its leave level. Filling it beyond that again
// would only start the next round.
void ledger::bound_by_rules(account& a, const device_state& d,
                            const std::vector<rule>& rules) const {
  const object_ref object{&now_, &d, nullptr, nullptr};
  for (const rule& r : rules) {
    if (r.mode != rule_mode::enforce || !relieves(r) || !watches(r, d)) continue;
    if (is_disabled(now_, r.name)) continue;
    for (const term& t : r.leave.terms) {
      const metric_entry& m = metric(t.metric);
      if (m.bytes_until == nullptr || !m.read(object).present()) continue;
      const double until_level = -m.bytes_until(object, t.limit);
      if (until_level >= *a.room) continue;
      a.room = until_level;
      a.bound = "left up to the leave level of policy '" + r.name + "', " + std::string(m.name) +
                " " + format_quantity(t.limit, m.measured_in);
    }
  }
}

const ledger::account& ledger::of(const device_state& d) const {
  return accounts_[static_cast<std::size_t>(&d - now_.devices.data())];
}

std::optional<double> ledger::room(const device_state& d) const { return of(d).room; }

const std::string& ledger::bound(const device_state& d) const { return of(d).bound; }

void ledger::book(const device_state& d, double bytes) {
  account& a = accounts_[static_cast<std::size_t>(&d - now_.devices.data())];
  if (a.room) *a.room -= bytes;
}

}  // namespace terrane::policies
