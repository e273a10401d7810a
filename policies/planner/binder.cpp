#include "policies/planner/binder.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "policies/planner/holds.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/quota.hpp"
#include "policies/planner/worth.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

bool is_moving(const snapshot& now, const pipeline_state& state, const subject_ref& subject) {
  const auto is_it = [&](const auto& m) {
    return m.kind == subject.kind && m.subject == subject.name;
  };
  return std::ranges::any_of(now.moving, is_it) ||
         std::ranges::any_of(state.issued, [&](const auto& i) { return is_it(i.second.move); });
}

bool takes_from(const intent& i, const kv_residency& r, const std::string& to) {
  return r.bytes > 0 && r.device != to && (i.only_from.empty() || r.device == i.only_from);
}

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

std::uint64_t full_bytes(const kv_residency& r) { return less(r.bytes, r.open_bytes); }

// What can be taken of the KV on one device, were nothing to be kept there.
std::uint64_t movable_bytes(const intent& i, const kv_residency& r) {
  const auto away = static_cast<std::uint64_t>(std::max<std::int64_t>(0, r.away_bytes));
  if (i.action == verb::fetch) return r.away_bytes < 0 ? r.bytes : away;
  // What a policy for no device spills is what lies beside its parts.
  return i.only_from.empty() ? less(full_bytes(r), away) : full_bytes(r);
}

// Of all a session's full pages, the bytes of those that lie before the newest `keep_tokens`.
std::uint64_t older_bytes(const snapshot& now, const session_state& s, std::uint64_t keep_tokens) {
  if (keep_tokens >= s.context_tokens) return 0;
  std::uint64_t held = 0, full = 0;
  for (const kv_residency& r : s.kv) {
    held += less(r.bytes, r.empty_bytes);
    full += full_bytes(r);
  }
  const std::uint64_t page = now.model.page_tokens;
  if (page > 0 && s.context_tokens >= page)
    return full / (s.context_tokens / page) * ((s.context_tokens - keep_tokens) / page);
  const double share = static_cast<double>(keep_tokens) / static_cast<double>(s.context_tokens);
  // Rounded up, so that what stays is never taken for a rest that should go.
  const double kept = std::ceil(share * static_cast<double>(held));
  return less(held, static_cast<std::uint64_t>(kept));
}

// The device that holds most of the KV that the intent takes.
std::string main_device(const session_state& s, const intent& i, const std::string& to) {
  const kv_residency* most = nullptr;
  for (const kv_residency& r : s.kv) {
    if (!takes_from(i, r, to)) continue;
    if (most == nullptr || movable_bytes(i, r) > movable_bytes(i, *most)) most = &r;
  }
  return most == nullptr ? std::string() : most->device;
}

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

// "1.2 GiB of the 3 GiB that must go could be planned; most of the rest: no room."
std::string shortfall(std::uint64_t reached, std::uint64_t goal,
                      const std::vector<candidate>& candidates) {
  std::map<filter, std::uint64_t> lost;
  for (const candidate& c : candidates) {
    if (c.removed_by != filter::none) lost[c.removed_by] += c.bytes;
  }
  std::string note = format_bytes(static_cast<double>(reached)) + " of the " +
                     format_bytes(static_cast<double>(goal)) + " that must go could be planned";
  const auto most =
      std::ranges::max_element(lost, {}, [](const auto& entry) { return entry.second; });
  if (most != lost.end()) note += "; most of the rest: " + std::string(to_string(most->first));
  return note + ".";
}

// Less than this share of what must go is no help.
constexpr std::uint64_t trifling_share = 16;

bool is_trifle(const proposal& p, std::uint64_t reached, const std::vector<planned_move>& moves,
               const decision_record& record) {
  if (moves.empty() || p.fills || !p.goal_bytes || reached >= *p.goal_bytes / trifling_share)
    return false;
  // What a limit spreads over time goes on.
  return std::ranges::none_of(record.candidates, [](const candidate& c) {
    return c.removed_by == filter::rate_limit || c.removed_by == filter::move_quota;
  });
}

bool is_pinned(const pipeline_state& state, const candidate& c, const snapshot& now) {
  const auto at = state.flaps.find({c.kind, c.subject});
  return at != state.flaps.end() && at->second.pinned_until_ms != reading::never &&
         now.time_ms < at->second.pinned_until_ms;
}

std::uint64_t spent_within(const std::vector<spent_bytes>& spent, std::int64_t now_ms,
                           std::int64_t per_ms) {
  std::uint64_t used = 0;
  for (const auto& [time_ms, bytes] : spent) {
    if (now_ms - time_ms < per_ms) used += bytes;
  }
  return used;
}

// A device that a target stands for before anything is checked: what a score can be made of.
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

void count_kv(const kv_amount& amount, candidate& c) {
  c.bytes = c.freed_bytes = amount.bytes;
  c.copied_bytes = amount.copied_bytes;
}

// Of a session's KV, what a spill leaves because its pages are not full.
std::uint64_t unfinished_bytes(const session_state& s, const intent& i) {
  std::uint64_t open = 0;
  if (i.action != verb::spill) return 0;
  for (const kv_residency& r : s.kv)
    if (takes_from(i, r, {})) open += r.open_bytes;
  return open;
}

// The work of all devices, as parts were measured; the way between devices is not counted.
void predict_token_ms(const snapshot& now, std::vector<planned_move>& moves) {
  if (moves.empty()) return;
  double sum = 0;
  for (const part_state& p : now.parts) {
    const auto moved = std::ranges::find_if(moves, [&](const planned_move& m) {
      return m.kind == subject_kind::part && m.subject == p.name;
    });
    const double ms = measured_ms(p, moved != moves.end() ? moved->to : p.device);
    if (ms <= 0 && p.kind != part_kind::embedding) return;
    sum += ms;
  }
  for (planned_move& m : moves)
    if (m.kind == subject_kind::part) m.predicted_token_ms = sum;
}

}  // namespace

// What one call of bind carries along.
struct binder::pass {
  const rule& r;
  const occasion& why;
  const policy_memory& memory;
  const std::string& object;  // that it is judged for
  const proposal& asked;
  ledger& books;
  const intent* wanted = nullptr;           // the candidate's
  std::vector<planned_move> accepted = {};  // those before are in the state
  std::uint64_t planned_bytes = 0;
};

binder::binder(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state)
    : now_(now), rules_(rules), state_(state), ledger_(now, rules, state) {
  for (const auto& [id, issued] : state.issued) in_flight_bytes_ += issued.move.bytes;
  for (const move_in_progress& m : now.moving) {
    if (!state.issued.contains(m.id)) in_flight_bytes_ += m.bytes;
  }
}

// The candidates in the order in which they are tried, each with its score. Where memory is short,
// parts that free none before the last of them has left come at the end.
std::vector<std::pair<const intent*, candidate>> binder::in_order(const pass& p) const {
  std::vector<std::pair<const intent*, candidate>> list;
  list.reserve(p.asked.wanted.size());
  for (const intent& i : p.asked.wanted) {
    candidate c = describe_candidate(i, p);
    c.to = likely_target(i, c, now_);
    c.score = score_of(c, now_, p.why.relieved, p.why.stay_ms);
    c.to.clear();
    list.emplace_back(&i, std::move(c));
  }
  if (p.asked.best_first) {
    std::ranges::stable_sort(list, std::greater{},
                             [](const auto& one) { return one.second.score.value; });
  }
  if (p.why.relieved != nullptr && is_short_of_memory(p.r)) {
    std::stable_partition(list.begin(), list.end(),
                          [&](const auto& one) { return !stays_for_others(one.second, p); });
  }
  return list;
}

std::vector<planned_move> binder::bind(const rule& r, const occasion& why, const proposal& p,
                                       const policy_memory& memory, decision_record& record) {
  ledger scratch = ledger_;
  pass current{r, why, memory, record.object, p, r.mode == rule_mode::enforce ? ledger_ : scratch};
  flaps_.clear();
  std::vector<planned_move>& moves = current.accepted;
  std::uint64_t reached = 0;
  for (auto& [wanted, c] : in_order(current)) {
    const intent& i = *wanted;
    verdict_of_filter v{filter::not_needed, "enough is planned without it"};
    if (p.fills && p.goal_bytes && reached + c.bytes > *p.goal_bytes) {
      v.detail = "it would go past the leave level";
    } else if (!p.goal_bytes || reached < *p.goal_bytes) {
      current.wanted = &i;
      v = filter_candidate(i, c, current);
      // What is on its way already counts, whoever sent it.
      const bool leaves = v.removed_by == filter::taken || v.removed_by == filter::already_moving;
      if (v.removed_by == filter::none || leaves) reached += p.fills ? c.bytes : c.freed_bytes;
      if (v.removed_by == filter::none) accept(i, c, current, record.id);
    }
    const bool flaps = v.removed_by == filter::flapping && !is_pinned(state_, c, now_);
    if (flaps && r.mode == rule_mode::enforce) flaps_.push_back({{c.kind, c.subject}, c.from});
    c.removed_by = v.removed_by;
    c.detail = v.detail;
    record.candidates.push_back(std::move(c));
  }
  predict_token_ms(now_, moves);
  trifle_ = is_trifle(p, reached, moves, record);
  if (p.goal_bytes && reached < *p.goal_bytes && !p.fills) {
    record.notes.push_back(shortfall(reached, *p.goal_bytes, record.candidates));
    if (trifle_) record.notes.push_back("That is next to nothing, so the next try waits longer.");
  }
  return moves;
}

void binder::accept(const intent& i, const candidate& c, pass& p, std::uint64_t decision) {
  if (const device_state* to = find_device(now_, c.to)) {
    p.books.book(*to, static_cast<double>(c.bytes));
  }
  if (p.r.mode == rule_mode::enforce) {
    taken_.insert_or_assign({c.kind, c.subject}, c.to);
    planned_links_[{c.from, c.to}] += c.bytes;
    in_flight_bytes_ += c.bytes;
  }
  p.planned_bytes += c.bytes;
  const link_state* link = find_link(now_, c.from, c.to);
  p.accepted.push_back({0, decision, i.action, c.kind, c.subject, c.from, c.to, c.bytes,
                        c.copied_bytes, i.keep_tokens,
                        i.action == verb::spill ? i.only_from : std::string(),
                        c.score.cost_ms.value_or(0), link != nullptr ? link->pause_ms : 0, 0,
                        i.reason, p.r.name, p.r.where});
}

candidate binder::describe_candidate(const intent& i, const pass& p) const {
  candidate c;
  c.action = i.action;
  c.kind = i.kind;
  c.subject = i.subject;
  if (i.kind == subject_kind::part) {
    if (const part_state* part = find_part(now_, i.subject)) {
      c.from = part->device;
      count_part(*part, c, p);
    }
  } else if (const session_state* s = find_session(now_, i.subject)) {
    c.from = main_device(*s, i, {});
    count_kv(kv_to_move(now_, *s, i, {}), c);
  }
  return c;
}

void binder::count_part(const part_state& part, candidate& c, const pass& p) const {
  const moved_bytes m = bytes_of_move(now_, part, c.to, after(p));
  c.bytes = m.taken;
  c.copied_bytes = m.copied;
  c.freed_bytes = m.freed;
}

// Where parts are once all is done that was planned before and in this pass.
whereabouts binder::after(const pass& p) const {
  return [this, &p](const part_state& part) -> std::string {
    const subject_ref subject{subject_kind::part, part.name};
    if (const auto at = taken_.find(subject); at != taken_.end()) return at->second;
    for (const planned_move& m : p.accepted)
      if (m.kind == subject_kind::part && m.subject == part.name) return m.to;
    for (const auto& [id, issued] : state_.issued)
      if (issued.move.kind == subject_kind::part && issued.move.subject == part.name)
        return issued.move.to;
    return part.device;
  };
}

// Whether next to nothing of the part becomes free before others that read its matrix have left.
bool binder::stays_for_others(const candidate& c, const pass& p) const {
  const part_state* part = c.kind == subject_kind::part ? find_part(now_, c.subject) : nullptr;
  if (part == nullptr || c.freed_bytes >= moving_bytes(*part) / trifling_share) return false;
  return !readers_beside(now_, *part, c.from, after(p)).empty();
}

// Of a part whose matrix stays where it is, since another that reads it is not to leave.
std::string binder::why_nothing_is_freed(const candidate& c, const pass& p) const {
  if (!is_short_of_memory(p.r) || !stays_for_others(c, p)) return {};
  const part_state& part = *find_part(now_, c.subject);
  for (const part_state* other : readers_beside(now_, part, c.from, after(p))) {
    const bool leaves = std::ranges::any_of(p.asked.wanted, [&](const intent& i) {
      return i.kind == subject_kind::part && i.subject == other->name;
    });
    if (leaves && other->movable && !other->pinned) continue;
    return other->name + " reads the same matrix, which stays on " + c.from +
           " with it: " + format_bytes(static_cast<double>(c.freed_bytes)) + " of " +
           format_bytes(static_cast<double>(moving_bytes(part))) + " would become free";
  }
  return {};
}

binder::verdict_of_filter binder::filter_candidate(const intent& i, candidate& c,
                                                   const pass& p) const {
  verdict_of_filter v = check_subject(i, c, p);
  if (v.removed_by == filter::none) v = choose_target(i, c, p);
  if (v.removed_by == filter::none) c.score = score_of(c, now_, p.why.relieved, p.why.stay_ms);
  if (v.removed_by == filter::none) v = check_return(c, p);
  if (v.removed_by == filter::none) v = check_worth(c, p);
  if (v.removed_by == filter::none) v = check_rate(c, p);
  if (v.removed_by == filter::none) v = check_quota(c, p);
  if (v.removed_by == filter::none) v.detail = i.reason;
  return v;
}

binder::verdict_of_filter binder::check_subject(const intent& i, const candidate& c,
                                                const pass& p) const {
  const subject_ref subject{i.kind, i.subject};
  const part_state* part = i.kind == subject_kind::part ? find_part(now_, i.subject) : nullptr;
  if (i.kind == subject_kind::part && part == nullptr) {
    return {filter::unknown_subject, "the model has no part '" + i.subject + "'"};
  }
  if (i.kind == subject_kind::session_kv && find_session(now_, i.subject) == nullptr) {
    return {filter::unknown_subject, "there is no session '" + i.subject + "'"};
  }
  if (part != nullptr && !part->movable) return {filter::not_movable, "it cannot be moved"};
  if (part != nullptr && part->pinned) return {filter::pinned, "it is pinned to " + part->device};
  if (taken_.contains(subject)) {
    return {filter::taken, "a policy that was asked before plans a move of it"};
  }
  if (is_pinned(state_, c, now_)) {
    const flap_memory& f = state_.flaps.at(subject);
    return {filter::flapping, "it is pinned to " + f.device + " for another " +
                                  format_duration(f.pinned_until_ms - now_.time_ms) +
                                  ", because it came home too often"};
  }
  if (is_moving(now_, state_, subject)) return {filter::already_moving, "it is being moved"};
  if (const hold* other = held_by_other(state_, subject, p.r.name);
      i.action == verb::fetch && other != nullptr) {
    return {filter::held_away, "policy '" + other->policy + "' still holds it away"};
  }
  if (part != nullptr && part->moved_ms != reading::never) {
    const std::int64_t age = now_.time_ms - part->moved_ms;
    if (age < p.r.min_stay_ms) {
      return {filter::min_stay, "it came to " + part->device + " " + format_duration(age) +
                                    " ago and stays at least " + format_duration(p.r.min_stay_ms)};
    }
  }
  if (i.kind == subject_kind::session_kv && c.bytes == 0) {
    const std::uint64_t open = unfinished_bytes(*find_session(now_, i.subject), i);
    if (open == 0) return {filter::already_there, "it has no KV there to move"};
    return {filter::unfinished, "the " + format_bytes(static_cast<double>(open)) +
                                    " that it takes there are in pages that are not full or hold "
                                    "nothing yet, and these stay beside their parts"};
  }
  return {};
}

binder::verdict_of_filter binder::choose_target(const intent& i, candidate& c,
                                                const pass& p) const {
  if (i.to.empty()) {
    // Beside the parts that use it: the engine knows where, and reserves there before it copies.
    c.to.clear();
    return {};
  }
  verdict_of_filter last;
  for (const target_choice& choice : i.to) {
    last = try_choice(choice, c, p);
    // What is where it was to go has no need of a lesser place, unless it is to leave just there.
    const bool arrived = last.removed_by == filter::already_there && c.to != p.object;
    if (last.removed_by == filter::none || arrived) return last;
  }
  return last;
}

binder::verdict_of_filter binder::try_choice(const target_choice& choice, candidate& c,
                                             const pass& p) const {
  if (choice.kind == target_kind::most_free || choice.kind == target_kind::most_free_gpu ||
      choice.kind == target_kind::coolest) {
    // What the policy has moved already stays there: the best place may be another one by now.
    if (const std::string* put_on = put_by(p.r, p.object, {c.kind, c.subject})) {
      return try_choice({target_kind::device, *put_on}, c, p);
    }
    return pick(choice.kind, c, p);
  }
  if (choice.kind == target_kind::device && choice.device.find('*') != std::string::npos)
    return try_each(choice.device, c, p);
  const device_state* to =
      choice.kind == target_kind::cpu ? find_cpu(now_) : find_device(now_, choice.device);
  c.to = to != nullptr ? to->name : name_of_choice(choice);
  if (to == nullptr) return {filter::unknown_device, "there is no device '" + c.to + "'"};
  if (c.kind == subject_kind::session_kv) {
    const session_state& s = *find_session(now_, c.subject);
    count_kv(kv_to_move(now_, s, *p.wanted, to->name), c);
    if (c.bytes > 0) c.from = main_device(s, *p.wanted, to->name);
  } else if (const part_state* part = find_part(now_, c.subject)) {
    count_part(*part, c, p);
  }
  verdict_of_filter v = check_target(c, *to);
  if (v.removed_by == filter::none) v = check_help(c, p);
  if (v.removed_by != filter::none) return v;
  const std::optional<double> room = p.books.room(*to);
  if (!room) return {filter::no_room, to->name + ": " + p.books.bound(*to)};
  if (*room < static_cast<double>(c.bytes)) {
    return {filter::no_room, "it needs " + format_bytes(static_cast<double>(c.bytes)) + " and " +
                                 to->name + " has " + format_bytes(std::max(0.0, *room)) + " " +
                                 p.books.bound(*to)};
  }
  return {};
}

// The devices that are like the pattern, in their order; first the one where the policy has put it
// before. Of those that do not take it, one without room tells most.
binder::verdict_of_filter binder::try_each(const std::string& pattern, candidate& c,
                                           const pass& p) const {
  candidate told = c;
  told.to = pattern;
  verdict_of_filter why{filter::unknown_device, "there is no device '" + pattern + "'"};
  if (matches_pattern(pattern, c.from)) {
    why = {filter::already_there,
           "it is on " + c.from + ", and no other device is like '" + pattern + "'"};
  }
  bool tried = false;
  // Whether the search ends with this one.
  const auto ends_with = [&](const std::string& device) {
    candidate at = c;
    verdict_of_filter v = try_choice({target_kind::device, device}, at, p);
    const bool taken = v.removed_by == filter::none;
    if (taken || !tried || v.removed_by == filter::no_room) {
      told = std::move(at);
      why = std::move(v);
    }
    tried = true;
    return taken;
  };
  const std::string* put_on = put_by(p.r, p.object, {c.kind, c.subject});
  if (put_on != nullptr && matches_pattern(pattern, *put_on) && find_device(now_, *put_on)) {
    if (ends_with(*put_on) || why.removed_by == filter::already_there) {
      c = std::move(told);
      return why;
    }
  }
  for (const device_state& d : now_.devices) {
    if (d.name == c.from || !matches_pattern(pattern, d.name)) continue;
    if (put_on != nullptr && d.name == *put_on) continue;
    if (ends_with(d.name)) break;
  }
  c = std::move(told);
  return why;
}

// Where the policy has put the subject for that object; null when it does not hold it.
const std::string* binder::put_by(const rule& r, const std::string& object,
                                  const subject_ref& subject) const {
  const auto held = state_.held.find(subject);
  if (held == state_.held.end()) return nullptr;
  const bool by_it = std::ranges::any_of(held->second.by, [&](const hold& h) {
    return h.policy == r.name && h.object == object && !h.releasing;
  });
  return by_it ? &held->second.put_on : nullptr;
}

binder::verdict_of_filter binder::check_target(const candidate& c, const device_state& to) const {
  const bool all_there = c.kind == subject_kind::part ? c.from == to.name : c.bytes == 0;
  if (all_there) return {filter::already_there, "it is on " + to.name + " already"};
  if (const rule* other = ledger_.relieved_by(to)) {
    return {filter::over_limit, to.name + " is being relieved by policy '" + other->name + "'"};
  }
  const auto failed = state_.failures.find({subject_ref{c.kind, c.subject}, to.name});
  if (failed != state_.failures.end() && now_.time_ms < failed->second.retry_ms) {
    const failure_memory& f = failed->second;
    return {filter::backing_off, "moving it to " + to.name +
                                     (f.was_idle ? " moved nothing " : " failed ") +
                                     std::to_string(f.count) + " times in a row; next try in " +
                                     format_duration(f.retry_ms - now_.time_ms)};
  }
  return {};
}

// The best device by room or temperature among those that no filter removes.
binder::verdict_of_filter binder::pick(target_kind by, candidate& c, const pass& p) const {
  const device_state* best = nullptr;
  double best_value = 0;
  candidate best_candidate = c;
  verdict_of_filter why{filter::unknown_device, by == target_kind::most_free_gpu
                                                    ? "there is no other GPU"
                                                    : "there is no other device"};
  for (const device_state& d : now_.devices) {
    if (d.name == c.from) continue;
    if (by == target_kind::most_free_gpu && d.kind != device_kind::gpu) continue;
    candidate at = c;
    const verdict_of_filter v = try_choice({target_kind::device, d.name}, at, p);
    if (v.removed_by != filter::none) {
      if (why.removed_by != filter::no_room) why = v;
      continue;
    }
    const bool cool = by == target_kind::coolest;
    if (cool && (!d.temp_c.present() || d.temp_c.stale(now_.time_ms))) {
      if (why.removed_by == filter::unknown_device) {
        why.detail = "no other device has a fresh temperature reading";
      }
      continue;
    }
    const double value = cool ? -d.temp_c.value : *p.books.room(d);
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

binder::verdict_of_filter binder::check_rate(const candidate& c, const pass& p) const {
  const std::optional<std::uint64_t> left = allowance(p.r, p.memory, now_.time_ms);
  if (!left || p.planned_bytes + c.bytes <= *left) return {};
  // One move larger than the whole limit goes alone; otherwise it could never go.
  if (p.planned_bytes == 0 && *left == p.r.limit.bytes) return {};
  return {filter::rate_limit,
          "the policy may move " + format_bytes(static_cast<double>(p.r.limit.bytes)) + " in " +
              format_duration(p.r.limit.per_ms) + ", and " +
              format_bytes(static_cast<double>(*left - std::min(*left, p.planned_bytes))) +
              " of that is left"};
}

binder::verdict_of_filter binder::check_return(const candidate& c, const pass& p) const {
  const subject_ref subject{c.kind, c.subject};
  const auto held = state_.held.find(subject);
  if (held == state_.held.end() || held->second.home != c.to) return {};
  const auto known = state_.flaps.find(subject);
  if (known == state_.flaps.end()) return {};
  const flap_limit& limit = p.r.flapping;
  const auto times = std::ranges::count_if(
      known->second.returns_ms, [&](std::int64_t at) { return now_.time_ms - at < limit.per_ms; });
  if (times < limit.times) return {};
  return {filter::flapping, "it came home " + std::to_string(times) + " times in " +
                                format_duration(limit.per_ms) + ", and is pinned to " + c.from +
                                " for as long"};
}

// Whether going there relieves what the policy is about.
binder::verdict_of_filter binder::check_help(const candidate& c, const pass& p) const {
  if (p.why.relieved == nullptr || !relieves(p.r)) return {};
  std::string why = why_no_help(c, now_, p.r, *p.why.relieved);
  if (why.empty()) why = why_nothing_is_freed(c, p);
  if (why.empty()) return {};
  return {filter::no_help, std::move(why)};
}

// Whether the move is worth what it costs. A policy that relieves a device is not asked what its
// moves gain in time; nor is a thing that goes home where it is slower: it belongs there.
binder::verdict_of_filter binder::check_worth(const candidate& c, const pass& p) const {
  if (p.why.relieved != nullptr && relieves(p.r)) return {};
  if (std::holds_alternative<promotion_action>(p.r.action)) return {};  // weighed as a whole
  if (p.why.going_home && c.score.gain_ms.value_or(0) <= 0) return {};
  std::string why = why_not_worth(c.score, now_);
  if (!why.empty()) return {filter::not_worth, std::move(why)};
  return {};
}

// Whether it would bring its user past a quota, which would only send it away again.
std::string binder::why_past_quota(const candidate& c, const pass& p) const {
  const session_state* s =
      c.kind == subject_kind::session_kv ? find_session(now_, c.subject) : nullptr;
  const tenant_state* tenant = s == nullptr ? nullptr : find_tenant(now_, s->tenant);
  if (tenant == nullptr) return {};
  for (const rule& r : rules_) {
    if (!limits(r, now_, tenant->name) || counts(r.quota, now_, c.from)) continue;
    if (!leads_to_quota(r.quota, now_, *s, c.to)) continue;
    const std::uint64_t held = counted_bytes(r.quota, now_, tenant->kv);
    std::uint64_t coming = find_on_its_way(r.quota, now_, state_, tenant->name).in;
    for (const planned_move& m : p.accepted)
      coming += brought_in(r.quota, now_, tenant->name, m.kind, m.subject, m.to, m.bytes);
    if (held + coming + c.bytes <= r.quota.bytes) continue;
    return tenant->name + " holds " + format_bytes(held) + " " + place_text(r.quota) +
           (coming > 0 ? ", " + format_bytes(coming) + " more are to come there" : "") +
           ", and policy '" + r.name + "' allows " + format_bytes(r.quota.bytes);
  }
  return {};
}

binder::verdict_of_filter binder::check_quota(const candidate& c, const pass& p) const {
  if (std::string past = why_past_quota(c, p); !past.empty())
    return {filter::user_quota, std::move(past)};
  const move_limits& limits = now_.limits;
  if (limits.link_bytes > 0) {
    std::uint64_t used = 0;
    if (const auto at = planned_links_.find({c.from, c.to}); at != planned_links_.end()) {
      used += at->second;
    }
    if (const auto at = state_.link_spent.find({c.from, c.to}); at != state_.link_spent.end()) {
      used += spent_within(at->second, now_.time_ms, limits.link_per_ms);
    }
    // One move larger than the whole quota goes alone, here and below.
    if (used > 0 && used + c.bytes > limits.link_bytes) {
      return {filter::move_quota,
              format_bytes(static_cast<double>(limits.link_bytes)) + " may move from " + c.from +
                  " to " + (c.to.empty() ? "its parts" : c.to) + " in " +
                  format_duration(limits.link_per_ms) + ", and " +
                  format_bytes(static_cast<double>(used)) + " of that are used"};
    }
  }
  const std::uint64_t most = limits.in_flight_bytes;
  if (most > 0 && in_flight_bytes_ > 0 && in_flight_bytes_ + c.bytes > most) {
    return {filter::move_quota, "moves of " + format_bytes(static_cast<double>(in_flight_bytes_)) +
                                    " are under way, and at most " +
                                    format_bytes(static_cast<double>(most)) + " may be"};
  }
  return {};
}

kv_amount kv_to_move(const snapshot& now, const session_state& s, const intent& i,
                     const std::string& to) {
  std::uint64_t movable = 0, past = 0, stays = 0;
  for (const kv_residency& r : s.kv) {
    const std::uint64_t here = takes_from(i, r, to) ? movable_bytes(i, r) : 0;
    movable += here;
    past += std::min(here, r.past_bytes);
    stays += less(full_bytes(r), here);
  }
  if (i.action == verb::spill && i.keep_tokens > 0) {
    // What has gone before is the oldest of it.
    movable = std::min(movable, less(older_bytes(now, s, i.keep_tokens), stays));
  }
  return {movable, less(movable, past)};
}

std::optional<std::uint64_t> allowance(const rule& r, const policy_memory& memory,
                                       std::int64_t now_ms) {
  if (r.limit.bytes == 0) return std::nullopt;
  const std::uint64_t used = spent_within(memory.spent, now_ms, r.limit.per_ms);
  return used >= r.limit.bytes ? 0 : r.limit.bytes - used;
}

}  // namespace terrane::policies
