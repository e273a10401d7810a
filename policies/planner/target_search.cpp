#include "policies/planner/target_search.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "policies/planner/kv_amount.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/worth.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

// The device of that name, or the first one besides `from` that is like the pattern.
const device_state* named_device(const snapshot& now, const std::string& name,
                                 const std::string& from) {
  if (name.find('*') == std::string::npos) return find_device(now, name);
  for (const device_state& d : now.devices) {
    if (d.name != from && matches_pattern(name, d.name)) return &d;
  }
  return nullptr;
}

std::string name_of_choice(const target_choice& choice) {
  if (choice.kind == target_kind::device) return choice.device;
  for (const word<target_kind>& w : targets()) {
    if (w.value == choice.kind) return std::string(w.name);
  }
  return {};
}

}  // namespace

std::string likely_target(const intent& i, const candidate& c, const snapshot& now) {
  for (const target_choice& t : i.to) {
    if (t.kind == target_kind::device) {
      const device_state* named = named_device(now, t.device, c.from);
      return named != nullptr ? named->name : t.device;
    }
    const device_state* cpu = find_cpu(now);
    if (t.kind == target_kind::cpu && cpu != nullptr) return cpu->name;
    for (const device_state& d : now.devices) {
      if (d.name != c.from) return d.name;
    }
  }
  return {};
}

filter_verdict target_search::choose(candidate& c) const {
  if (wanted_.to.empty()) {
    // Beside the parts that use it: the engine knows where, and reserves there before it copies.
    c.to.clear();
    return {};
  }
  filter_verdict last;
  for (const target_choice& choice : wanted_.to) {
    last = try_choice(choice, c);
    // What is where it was to go has no need of a lesser place, unless it is to leave just there.
    const bool arrived = last.removed_by == filter::already_there && c.to != q_.object;
    if (last.removed_by == filter::none || arrived) return last;
  }
  return last;
}

filter_verdict target_search::try_choice(const target_choice& choice, candidate& c) const {
  if (choice.kind == target_kind::most_free || choice.kind == target_kind::most_free_gpu ||
      choice.kind == target_kind::coolest) {
    // What the policy has moved already stays there: the best place may be another one by now.
    if (const std::string* put_on = put_by_policy({c.kind, c.subject})) {
      return try_choice({target_kind::device, *put_on}, c);
    }
    return pick(choice.kind, c);
  }
  if (choice.kind == target_kind::device && choice.device.find('*') != std::string::npos)
    return try_each(choice.device, c);
  const device_state* to =
      choice.kind == target_kind::cpu ? find_cpu(q_.now) : find_device(q_.now, choice.device);
  c.to = to != nullptr ? to->name : name_of_choice(choice);
  if (to == nullptr) return {filter::unknown_device, "there is no device '" + c.to + "'"};
  if (c.kind == subject_kind::session_kv) {
    const session_state& s = *find_session(q_.now, c.subject);
    count_kv(kv_to_move(q_.now, s, wanted_, to->name), c);
    if (c.bytes > 0) c.from = main_device(s, wanted_, to->name);
  } else if (const part_state* part = find_part(q_.now, c.subject)) {
    count_part(q_.now, *part, c, q_.after);
  }
  filter_verdict v = check_target(c, *to);
  if (v.removed_by == filter::none) v = check_help(c);
  if (v.removed_by != filter::none) return v;
  const std::optional<double> room = q_.books.room(*to);
  if (!room) return {filter::no_room, to->name + ": " + q_.books.bound(*to)};
  if (*room < static_cast<double>(c.bytes)) {
    return {filter::no_room, "it needs " + format_bytes(static_cast<double>(c.bytes)) + " and " +
                                 to->name + " has " + format_bytes(std::max(0.0, *room)) + " " +
                                 q_.books.bound(*to)};
  }
  return {};
}

// The devices that are like the pattern, in their order; first the one where the policy has put it
// before. Of those that do not take it, one without room tells most.
filter_verdict target_search::try_each(const std::string& pattern, candidate& c) const {
  candidate told = c;
  told.to = pattern;
  filter_verdict why{filter::unknown_device, "there is no device '" + pattern + "'"};
  if (matches_pattern(pattern, c.from)) {
    why = {filter::already_there,
           "it is on " + c.from + ", and no other device is like '" + pattern + "'"};
  }
  bool tried = false;
  // Whether the search ends with this one.
  const auto ends_with = [&](const std::string& device) {
    candidate at = c;
    filter_verdict v = try_choice({target_kind::device, device}, at);
    const bool taken = v.removed_by == filter::none;
    if (taken || !tried || v.removed_by == filter::no_room) {
      told = std::move(at);
      why = std::move(v);
    }
    tried = true;
    return taken;
  };
  const std::string* put_on = put_by_policy({c.kind, c.subject});
  if (put_on != nullptr && matches_pattern(pattern, *put_on) && find_device(q_.now, *put_on)) {
    if (ends_with(*put_on) || why.removed_by == filter::already_there) {
      c = std::move(told);
      return why;
    }
  }
  for (const device_state& d : q_.now.devices) {
    if (d.name == c.from || !matches_pattern(pattern, d.name)) continue;
    if (put_on != nullptr && d.name == *put_on) continue;
    if (ends_with(d.name)) break;
  }
  c = std::move(told);
  return why;
}

// Where the policy has put the subject for its object; null when it does not hold it.
const std::string* target_search::put_by_policy(const subject_ref& subject) const {
  const auto held = q_.state.held.find(subject);
  if (held == q_.state.held.end()) return nullptr;
  const bool by_it = std::ranges::any_of(held->second.by, [&](const hold& h) {
    return h.policy == q_.r.name && h.object == q_.object && !h.releasing;
  });
  return by_it ? &held->second.put_on : nullptr;
}

filter_verdict target_search::check_target(const candidate& c, const device_state& to) const {
  const bool all_there = c.kind == subject_kind::part ? c.from == to.name : c.bytes == 0;
  if (all_there) return {filter::already_there, "it is on " + to.name + " already"};
  if (const rule* other = q_.books.relieved_by(to)) {
    return {filter::over_limit, to.name + " is being relieved by policy '" + other->name + "'"};
  }
  const auto failed = q_.state.failures.find({subject_ref{c.kind, c.subject}, to.name});
  if (failed != q_.state.failures.end() && q_.now.time_ms < failed->second.retry_ms) {
    const failure_memory& f = failed->second;
    return {filter::backing_off, "moving it to " + to.name +
                                     (f.was_idle ? " moved nothing " : " failed ") +
                                     std::to_string(f.count) + " times in a row; next try in " +
                                     format_duration(f.retry_ms - q_.now.time_ms)};
  }
  return {};
}

// The best device by room or temperature among those that no filter removes.
filter_verdict target_search::pick(target_kind by, candidate& c) const {
  const device_state* best = nullptr;
  double best_value = 0;
  candidate best_candidate = c;
  filter_verdict why{filter::unknown_device, by == target_kind::most_free_gpu
                                                 ? "there is no other GPU"
                                                 : "there is no other device"};
  for (const device_state& d : q_.now.devices) {
    if (d.name == c.from) continue;
    if (by == target_kind::most_free_gpu && d.kind != device_kind::gpu) continue;
    candidate at = c;
    const filter_verdict v = try_choice({target_kind::device, d.name}, at);
    if (v.removed_by != filter::none) {
      if (why.removed_by != filter::no_room) why = v;
      continue;
    }
    const bool cool = by == target_kind::coolest;
    if (cool && (!d.temp_c.present() || d.temp_c.stale(q_.now.time_ms))) {
      if (why.removed_by == filter::unknown_device) {
        why.detail = "no other device has a fresh temperature reading";
      }
      continue;
    }
    const double value = cool ? -d.temp_c.value : *q_.books.room(d);
    if (best == nullptr || value > best_value) {
      best = &d;
      best_value = value;
      best_candidate = at;
    }
  }
  if (best == nullptr) {
    c.to = name_of_choice({by, {}});
    return why;
  }
  c = best_candidate;
  return {};
}

// Whether going there relieves what the policy is about.
filter_verdict target_search::check_help(const candidate& c) const {
  if (q_.relieved == nullptr || !relieves(q_.r)) return {};
  std::string why = why_no_help(c, q_.now, q_.r, *q_.relieved);
  if (why.empty() && is_short_of_memory(q_.r))
    why = why_nothing_is_freed(q_.now, c, q_.after, q_.leaves);
  if (why.empty()) return {};
  return {filter::no_help, std::move(why)};
}

}  // namespace terrane::policies
