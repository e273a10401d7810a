#include "policies/planner/binder.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "policies/planner/holds.hpp"
#include "policies/planner/kv_amount.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/quota.hpp"
#include "policies/planner/under_way.hpp"
#include "policies/planner/worth.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/saturating.hpp"

namespace terrane::policies {
namespace {

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

bool is_trifle(const proposal& p, std::uint64_t reached, const std::vector<planned_move>& moves,
               const decision_record& record) {
  if (moves.empty() || p.fills || !p.goal_bytes || !is_next_to_nothing(reached, *p.goal_bytes))
    return false;
  // What a limit spreads over time goes on.
  return std::ranges::none_of(record.candidates, [](const candidate& c) {
    return c.removed_by == filter::rate_limit || c.removed_by == filter::move_quota;
  });
}

std::uint64_t spent_within(const std::vector<spent_bytes>& spent, std::int64_t now_ms,
                           std::int64_t per_ms) {
  std::uint64_t used = 0;
  for (const auto& [time_ms, bytes] : spent) {
    if (now_ms - time_ms < per_ms) used += bytes;
  }
  return used;
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
  std::vector<planned_move> accepted = {};  // those before are in the state
  std::uint64_t planned_bytes = 0;
};

binder::binder(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state)
    : now_(now), rules_(rules), state_(state), ledger_(now, rules, state) {
  for (const move_under_way& m : moves_under_way(now, state)) in_flight_bytes_ += m.bytes;
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
    const whereabouts where = after(p);
    std::stable_partition(list.begin(), list.end(), [&](const auto& one) {
      return !stays_for_others(now_, one.second, where);
    });
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
    filter_verdict v{filter::not_needed, "enough is planned without it"};
    if (p.fills && p.goal_bytes && reached + c.bytes > *p.goal_bytes) {
      v.detail = "it would go past the leave level";
    } else if (!p.goal_bytes || reached < *p.goal_bytes) {
      v = filter_candidate(i, c, current);
      // What is on its way already counts, whoever sent it.
      const bool leaves = v.removed_by == filter::taken || v.removed_by == filter::already_moving;
      if (v.removed_by == filter::none || leaves) reached += p.fills ? c.bytes : c.freed_bytes;
      if (v.removed_by == filter::none) accept(i, c, current, record.id);
    }
    const bool flaps = v.removed_by == filter::flapping &&
                       !is_pinned_for_flapping(now_, state_, {c.kind, c.subject});
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
      count_part(now_, *part, c, after(p));
    }
  } else if (const session_state* s = find_session(now_, i.subject)) {
    c.from = main_device(*s, i, {});
    count_kv(kv_to_move(now_, *s, i, {}), c);
  }
  return c;
}

// Where parts are once all is done that was planned before and in this pass.
whereabouts binder::after(const pass& p) const {
  return [this, &p, moving = moves_under_way(now_, state_)](const part_state& part) -> std::string {
    const subject_ref subject{subject_kind::part, part.name};
    if (const auto at = taken_.find(subject); at != taken_.end()) return at->second;
    for (const planned_move& m : p.accepted)
      if (m.kind == subject_kind::part && m.subject == part.name) return m.to;
    for (const move_under_way& m : moving)
      if (m.kind == subject_kind::part && m.subject == part.name) return m.to;
    return part.device;
  };
}

target_search binder::find_target(const intent& i, const pass& p) const {
  const auto leaves = [this, &p](const part_state& part) {
    return std::ranges::any_of(p.asked.wanted, [&](const intent& other) {
      return other.kind == subject_kind::part && other.subject == part.name &&
             check_subject(other, {}, p).removed_by == filter::none;
    });
  };
  return {{now_, state_, p.books, p.r, p.object, p.why.relieved, after(p), leaves}, i};
}

filter_verdict binder::filter_candidate(const intent& i, candidate& c, const pass& p) const {
  filter_verdict v = check_subject(i, c, p);
  if (v.removed_by == filter::none) v = find_target(i, p).choose(c);
  if (v.removed_by == filter::none) c.score = score_of(c, now_, p.why.relieved, p.why.stay_ms);
  if (v.removed_by == filter::none) v = check_return(c, p);
  if (v.removed_by == filter::none) v = check_worth(c, p);
  if (v.removed_by == filter::none) v = check_rate(c, p);
  if (v.removed_by == filter::none) v = check_quota(c, p);
  if (v.removed_by == filter::none) v.detail = i.reason;
  return v;
}

filter_verdict binder::check_subject(const intent& i, const candidate& c, const pass& p) const {
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
  if (is_pinned_for_flapping(now_, state_, subject)) {
    const flap_memory& f = state_.flaps.at(subject);
    return {filter::flapping, "it is pinned to " + f.device + " for another " +
                                  format_duration(f.pinned_until_ms - now_.time_ms) +
                                  ", because it came home too often"};
  }
  if (is_under_way(now_, state_, subject)) return {filter::already_moving, "it is being moved"};
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

filter_verdict binder::check_rate(const candidate& c, const pass& p) const {
  const std::optional<std::uint64_t> left = allowance(p.r, p.memory, now_.time_ms);
  if (!left || p.planned_bytes + c.bytes <= *left) return {};
  // One move larger than the whole limit goes alone; otherwise it could never go.
  if (p.planned_bytes == 0 && *left == p.r.limit.bytes) return {};
  return {filter::rate_limit,
          "the policy may move " + format_bytes(static_cast<double>(p.r.limit.bytes)) + " in " +
              format_duration(p.r.limit.per_ms) + ", and " +
              format_bytes(static_cast<double>(subtract_saturating(*left, p.planned_bytes))) +
              " of that is left"};
}

filter_verdict binder::check_return(const candidate& c, const pass& p) const {
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

// Whether the move is worth what it costs. A policy that relieves a device is not asked what its
// moves gain in time; nor is a thing that goes home where it is slower: it belongs there.
filter_verdict binder::check_worth(const candidate& c, const pass& p) const {
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

filter_verdict binder::check_quota(const candidate& c, const pass& p) const {
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

std::optional<std::uint64_t> allowance(const rule& r, const policy_memory& memory,
                                       std::int64_t now_ms) {
  if (r.limit.bytes == 0) return std::nullopt;
  const std::uint64_t used = spent_within(memory.spent, now_ms, r.limit.per_ms);
  return used >= r.limit.bytes ? 0 : r.limit.bytes - used;
}

}  // namespace terrane::policies
