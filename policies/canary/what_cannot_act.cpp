#include <algorithm>
#include <string>

#include "policies/canary/canary.hpp"
#include "policies/planner/objects.hpp"
#include "policies/planner/propose.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::canary {
namespace {

std::string named(const rule& r) { return "policy '" + r.name + "'"; }

// What a rule moves, as its file says it.
std::string moved_by(const rule& r, const declarative_action& a) {
  if (r.for_each == scope::part && !r.only.empty()) {
    std::string names;
    for (const std::string& name : r.only) names += (names.empty() ? "" : ", ") + name;
    return names;
  }
  if (a.what == selection::pattern) return a.pattern;
  const auto row = std::ranges::find(selections(), a.what, &word<selection>::value);
  return row == selections().end() ? "" : std::string(row->name);
}

// Why it can move nothing of this model; empty: it can.
std::string why_nothing_moves(const rule& r, const snapshot& now) {
  const auto* a = std::get_if<declarative_action>(&r.action);
  if (a == nullptr || a->action != verb::move || now.parts.empty()) return {};
  const part_state* pinned = nullptr;
  std::size_t count = 0;
  for (const part_state& p : now.parts) {
    if (!(r.for_each == scope::part ? is_about(r, p.name) : selects(*a, p))) continue;
    if (!p.pinned) return {};
    pinned = &p;
    ++count;
  }
  const std::string what = named(r) + " moves '" + moved_by(r, *a) + "', and ";
  if (pinned == nullptr) return what + "the model has no such part";
  return what + "the configuration pins " +
         (count == 1 ? pinned->name : "all " + std::to_string(count) + " that it matches");
}

// Whether no reading of the device can be on that side of the limit: of memory, where it has less.
bool is_beyond(const term& t, const device_state& d) {
  const metric_entry& m = metric(t.metric);
  const bool of_memory = m.measured_in == unit::bytes && m.belongs_to == scope::device;
  return of_memory && t.compare == comparison::above && t.metric != metric_id::vram_total &&
         d.vram_total.present() && t.limit >= d.vram_total.value;
}

// The term that keeps the condition from ever holding for the device; null: it may hold.
const term* never_holds(const condition& c, const device_state& d) {
  const auto beyond = [&](const term& t) { return is_beyond(t, d); };
  const auto first = std::ranges::find_if(c.terms, beyond);
  if (first == c.terms.end()) return nullptr;
  return c.how == combination::all_of || std::ranges::all_of(c.terms, beyond) ? &*first : nullptr;
}

void tell_levels(const rule& r, const device_state& d, std::vector<diagnostic>& out) {
  const auto tell = [&](const condition& c, const std::string& what) {
    const term* t = never_holds(c, d);
    if (t == nullptr) return;
    out.push_back({severity::warning, r.where,
                   named(r) + " never " + what + " " + d.name + ": it waits for " +
                       std::string(metric(t->metric).name) + " " + limit_text(*t) + ", and " +
                       d.name + " has " + format_bytes(d.vram_total.value)});
  };
  tell(r.enter, "acts for");
  tell(r.leave, "lets go of");
}

}  // namespace

std::vector<diagnostic> what_cannot_act(const policy_set& set, const snapshot& now) {
  std::vector<diagnostic> out;
  for (const rule& r : set.rules()) {
    if (std::string why = why_nothing_moves(r, now); !why.empty())
      out.push_back({severity::warning, r.where, std::move(why)});
    if (!is_device_scope(r.for_each)) continue;
    for_each_object(r, now, [&](const object_ref& o) { tell_levels(r, *o.device, out); });
  }
  return out;
}

}  // namespace terrane::policies::canary
