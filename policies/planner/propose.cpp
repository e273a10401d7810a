#include "policies/planner/propose.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "policies/planner/cheaper_spill.hpp"
#include "policies/rule/lint.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

bool is_layer(const part_state& p) {
  return p.kind == part_kind::attention || p.kind == part_kind::feed_forward ||
         p.kind == part_kind::expert;
}

// The model's order from the bottom: embedding, layers with attention before feed-forward, head.
std::tuple<int, int, int> height(const part_state& p) {
  switch (p.kind) {
    case part_kind::embedding:
      return {0, 0, 0};
    case part_kind::attention:
      return {1, p.layer, 0};
    case part_kind::feed_forward:
      return {1, p.layer, 1};
    case part_kind::expert:
      return {1, p.layer, 2};
    case part_kind::head:
      return {2, 0, 0};
  }
  return {};
}

std::vector<const part_state*> parts_on(const declarative_action& a, const snapshot& now,
                                        const std::string& device) {
  std::vector<const part_state*> parts;
  for (const part_state& p : now.parts) {
    if (p.device == device && selects(a, p)) parts.push_back(&p);
  }
  sort_parts(parts, a.order);
  return parts;
}

// The parts of other devices that are to come, device by device.
std::vector<const part_state*> parts_from(const declarative_action& a, const object_ref& object) {
  std::vector<const part_state*> parts;
  std::set<std::string_view> seen;
  for (const target_choice& from : a.from) {
    for (const device_state& d : object.now->devices) {
      const bool named = from.kind == target_kind::cpu ? d.kind == device_kind::cpu
                                                       : matches_pattern(from.device, d.name);
      if (!named || &d == object.device || !seen.insert(d.name).second) continue;
      std::ranges::copy(parts_on(a, *object.now, d.name), std::back_inserter(parts));
    }
  }
  return parts;
}

std::vector<const part_state*> parts_of(const declarative_action& a, const object_ref& object) {
  if (object.part != nullptr) return {object.part};
  if (!a.from.empty()) return parts_from(a, object);
  const device_state* from = relieved_device(object);
  if (from == nullptr) return {};
  return parts_on(a, *object.now, from->name);
}

// Where to, for this object.
std::vector<target_choice> targets_of(const declarative_action& a, const object_ref& object) {
  std::vector<target_choice> to = a.to;
  for (target_choice& t : to) {
    if (t.kind == target_kind::itself && object.device != nullptr) {
      t = {target_kind::device, object.device->name};
    }
  }
  return to;
}

std::vector<const session_state*> sessions_of(const declarative_action& a,
                                              const object_ref& object) {
  if (object.session != nullptr) return {object.session};
  const device_state* on = relieved_device(object);
  std::vector<const session_state*> sessions;
  for (const session_state& s : object.now->sessions) {
    if (object.tenant != nullptr && s.tenant != object.tenant->name) continue;
    if (kv_bytes_on(s, on) > 0) sessions.push_back(&s);
  }
  sort_sessions(sessions, a.order, on);
  return sessions;
}

void set_goal(const rule& r, const declarative_action& a, const object_ref& object, proposal& p) {
  if (a.until == extent::all) return;
  if (a.until == extent::bytes) {
    p.goal_bytes = a.until_bytes;
    return;
  }
  const std::optional<double> excess = bytes_until_leave(r, object);
  if (!excess) {
    p.goal_bytes = 0;
    p.notes.push_back("No fresh reading tells how much must go to reach the leave level.");
    return;
  }
  // What comes from elsewhere fills the device up to the leave level.
  p.fills = !a.from.empty();
  const double goal = p.fills ? -*excess : *excess;
  p.goal_bytes = static_cast<std::uint64_t>(std::max(0.0, goal));
}

}  // namespace

bool selects(const declarative_action& a, const part_state& p) {
  switch (a.what) {
    case selection::parts:
      return true;
    case selection::layers:
      return is_layer(p);
    case selection::attention:
      return p.kind == part_kind::attention;
    case selection::feed_forward:
      return p.kind == part_kind::feed_forward;
    case selection::experts:
      return p.kind == part_kind::expert;
    case selection::head:
      return p.kind == part_kind::head;
    case selection::embedding:
      return p.kind == part_kind::embedding;
    case selection::pattern:
      return matches_pattern(a.pattern, p.name);
  }
  return false;
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

const device_state* relieved_device(const object_ref& object) {
  if (object.device != nullptr) return object.device;
  if (object.session != nullptr || object.part != nullptr || object.tenant != nullptr)
    return nullptr;
  return find_cpu(*object.now);
}

std::uint64_t kv_bytes_on(const session_state& s, const device_state* on) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : s.kv) {
    if (on == nullptr || r.device == on->name) sum += r.bytes;
  }
  return sum;
}

std::uint64_t moving_bytes(const part_state& p) { return p.weight_bytes + p.kv_bytes; }

void sort_parts(std::vector<const part_state*>& parts, ordering order) {
  std::ranges::stable_sort(parts, {}, [](const part_state* p) { return height(*p); });
  const auto size = [](const part_state* p) { return moving_bytes(*p); };
  if (order == ordering::top_down) std::ranges::reverse(parts);
  if (order == ordering::largest_first) std::ranges::stable_sort(parts, std::greater{}, size);
  if (order == ordering::smallest_first) std::ranges::stable_sort(parts, {}, size);
}

void sort_sessions(std::vector<const session_state*>& sessions, ordering order,
                   const device_state* on) {
  std::ranges::stable_sort(sessions, {}, &session_state::id);
  const auto size = [on](const session_state* s) { return kv_bytes_on(*s, on); };
  if (order == ordering::longest_idle) {
    std::ranges::stable_sort(sessions, std::greater{}, &session_state::idle_s);
  }
  if (order == ordering::largest_first) std::ranges::stable_sort(sessions, std::greater{}, size);
  if (order == ordering::smallest_first) std::ranges::stable_sort(sessions, {}, size);
}

std::optional<double> bytes_until_leave(const rule& r, const object_ref& object) {
  std::optional<double> needed;
  for (const term& t : r.leave.terms) {
    const metric_entry& m = metric(t.metric);
    if (!counts_bytes(r.for_each, m)) continue;
    const reading now = m.read(object);
    if (!now.present() || now.stale(object.now->time_ms)) continue;
    const double bytes = m.bytes_until(object, t.limit);
    if (!needed) {
      needed = bytes;
    } else if (r.leave.how == combination::all_of) {
      needed = std::max(*needed, bytes);
    } else {
      needed = std::min(*needed, bytes);
    }
  }
  return needed;
}

std::string met_clause(const condition& c, const object_ref& object) {
  std::string text;
  for (const term& t : c.terms) {
    const metric_entry& m = metric(t.metric);
    const reading r = m.read(object);
    if (!r.present() || !compares(t, r.value)) continue;
    text += (text.empty() ? "" : " and ") + std::string(m.name) + " is " +
            format_quantity(r.value, m.measured_in);
    if (t.compare != comparison::is) text += " (" + limit_text(t) + ")";
  }
  return text;
}

void propose_yield(const std::vector<target_choice>& to, const object_ref& object, proposal& p) {
  const device_state* from = relieved_device(object);
  if (from == nullptr) return;
  const std::vector<target_choice> anywhere = {{target_kind::most_free, {}}};
  const std::vector<target_choice>& choices = to.empty() ? anywhere : to;
  std::vector<const part_state*> parts;
  for (const part_state& part : object.now->parts) {
    if (part.device == from->name) parts.push_back(&part);
  }
  sort_parts(parts, ordering::top_down);
  bool moves = false;
  for (const part_state* part : parts) {
    moves = moves || (part->movable && !part->pinned);
    p.wanted.push_back(
        {verb::move, subject_kind::part, part->name, choices, 0, {}, p.yield_reason});
  }
  if (moves) return;
  for (const session_state& s : object.now->sessions) {
    if (kv_bytes_on(s, from) == 0) continue;
    p.wanted.push_back(
        {verb::spill, subject_kind::session_kv, s.id, choices, 0, from->name, p.yield_reason});
  }
}

// Why a policy acts: what is beyond its limit, or who asked.
std::string reason_of(const rule& r, const object_ref& object) {
  const yield_order* order =
      object.device != nullptr ? find_yield(*object.now, object.device->name) : nullptr;
  const bool asked = std::ranges::any_of(
      r.enter.terms, [](const term& t) { return t.metric == metric_id::yield_asked; });
  if (asked && order != nullptr) {
    return order->by + " asked for the memory of " + object.device->name;
  }
  const std::string met = met_clause(r.enter, object);
  return met.empty() ? met_clause(r.emergency, object) : met;
}

proposal propose(const rule& r, const declarative_action& a, const object_ref& object) {
  proposal p;
  const std::string reason = reason_of(r, object);
  p.best_first = a.order == ordering::best;
  if (a.action == verb::yield) {
    p.yield_reason = reason;
    propose_yield(a.to, object, p);
    return p;
  }
  const std::vector<target_choice> to = targets_of(a, object);
  if (a.action == verb::spill && a.spills == spilling::cheaper) {
    set_goal(r, a, object, p);
    cheaper_spill chosen = spill_cheaper(
        *object.now,
        {relieved_device(object), p.goal_bytes.value_or(0), to, a.order, a.keep_tokens, reason});
    p.wanted = std::move(chosen.wanted);
    if (!chosen.note.empty()) p.notes.push_back(std::move(chosen.note));
    return p;
  }
  if (a.action == verb::move) {
    for (const part_state* part : parts_of(a, object)) {
      p.wanted.push_back({verb::move, subject_kind::part, part->name, to, 0, {}, reason});
    }
  } else {
    const device_state* on = relieved_device(object);
    const std::string from = on != nullptr && a.action == verb::spill ? on->name : "";
    for (const session_state* s : sessions_of(a, object)) {
      p.wanted.push_back(
          {a.action, subject_kind::session_kv, s->id, to, a.keep_tokens, from, reason});
    }
  }
  set_goal(r, a, object, p);
  return p;
}

}  // namespace terrane::policies
