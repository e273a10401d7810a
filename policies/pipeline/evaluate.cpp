#include "policies/pipeline/evaluate.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "policies/lua/plan.hpp"
#include "policies/pipeline/absorb.hpp"
#include "policies/planner/binder.hpp"
#include "policies/planner/holds.hpp"
#include "policies/planner/objects.hpp"
#include "policies/planner/promotion.hpp"
#include "policies/planner/propose.hpp"
#include "policies/rule/lint.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

constexpr std::int64_t first_fault_backoff_ms = 5000;
constexpr std::int64_t last_fault_backoff_ms = 600'000;

// A latch that asks for something in this tick.
struct fired {
  std::size_t rule_index;
  std::size_t latch_index;
  object_ref object;
  latch_signal signal;
  bool was_engaged;
};

decision_event event_of(latch_signal s) {
  if (s == latch_signal::entered) return decision_event::entered;
  if (s == latch_signal::emergency) return decision_event::emergency;
  return s == latch_signal::again ? decision_event::again : decision_event::left;
}

// What is let go of is expected to stay at home until its policy engages again.
occasion goes_home(const latch_state& latch) {
  occasion why;
  why.going_home = true;
  if (latch.mean_idle_ms > 0) why.stay_ms = latch.mean_idle_ms;
  return why;
}

// One evaluation. Holds references for its short life.
class tick {
 public:
  tick(const policy_set& policies, const snapshot& now, pipeline_state& state)
      : rules_(policies.asked()), now_(now), state_(state) {
    out_.planned.snapshot_sequence = now.sequence;
  }

  decision run() {
    for (const fired& f : detect()) act(f);
    bring_home();
    std::ranges::move(flapped_, std::back_inserter(out_.records));
    return std::move(out_);
  }

 private:
  std::vector<fired> detect();
  void switch_off(policy_memory& memory);
  void act(const fired& f);
  void undo(const fired& f, decision_record& record);
  bool plan_more(const fired& f, decision_record& record);
  proposal promote(const fired& f);
  bool still_gains(const std::vector<planned_move>& moves, decision_record& record) const;
  std::optional<proposal> ask(const fired& f, lua::entry_point entry, decision_record& record);
  void fault(policy_memory& memory, const std::string& why, decision_record& record);
  void apply_restore(const fired& f, const proposal& p, decision_record& record);
  occasion wants(const fired& f) const;
  std::uint32_t bind_and_issue(const fired& f, const occasion& why, const proposal& p,
                               decision_record& record);
  void pin_flaps(const rule& r, policy_memory& memory, const std::string& object);
  void issue(const rule& r, policy_memory& memory, planned_move m, decision_record& record);
  void spend(const rule& r, policy_memory& memory, std::uint64_t bytes);
  void bring_home();
  void bring_home_for(const rule& r, policy_memory& memory, const std::string& object,
                      const std::vector<homecoming>& list);
  bool has_lasted(const rule& r, const planned_move& m);
  decision_record& record_for(const rule& r, const std::string& object);
  decision_record new_record(const rule& r, const std::string& object, decision_event event);
  binder& planner() {
    // Made only in ticks in which something fires.
    if (!binder_) binder_.emplace(now_, rules_, state_);
    return *binder_;
  }

  const std::vector<rule>& rules_;
  const snapshot& now_;
  pipeline_state& state_;
  decision out_;
  std::optional<binder> binder_;
  std::optional<promotion> promotion_;
  std::vector<decision_record> flapped_;
};

std::vector<fired> tick::detect() {
  std::vector<fired> list;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    policy_memory& memory = state_.policies[i];
    if (!now_.disabled.empty() && is_disabled(now_, rules_[i].name)) {
      switch_off(memory);
      continue;
    }
    std::size_t count = 0;
    for_each_object(rules_[i], now_, [&](const object_ref& object) {
      object_latch& at = latch_at(memory, count, object_name(object));
      const bool engaged = at.latch.phase == latch_phase::engaged;
      const latch_signal s = step(at.latch, rules_[i], object);
      if (s != latch_signal::none) list.push_back({i, count, object, s, engaged});
      ++count;
    });
    if (memory.latches.size() > count) drop_latches(state_, memory, count);
  }
  return list;
}

// A policy that was switched off forgets what it held; what it moved stays.
void tick::switch_off(policy_memory& memory) {
  if (memory.latches.empty()) return;
  memory.latches.clear();
  drop_holds(state_, memory.policy);
}

decision_record tick::new_record(const rule& r, const std::string& object, decision_event event) {
  decision_record record;
  record.id = state_.next_decision++;
  record.time_ms = now_.time_ms;
  record.snapshot_sequence = now_.sequence;
  record.event = event;
  record.policy = r.name;
  record.object = object;
  record.mode = r.mode;
  record.where = r.where;
  return record;
}

void tick::act(const fired& f) {
  const rule& r = rules_[f.rule_index];
  const latch_state& latch = state_.policies[f.rule_index].latches[f.latch_index].latch;
  const bool left = f.signal == latch_signal::left;
  decision_record record = new_record(r, object_name(f.object), event_of(f.signal));
  record.conditions = left ? describe(r.leave, latch.leave, f.object)
                      : f.signal == latch_signal::emergency
                          ? describe(r.emergency, latch.emergency, f.object)
                          : describe(r.enter, latch.enter, f.object);
  if (left) {
    undo(f, record);
  } else if (!plan_more(f, record)) {
    return;
  }
  out_.records.push_back(std::move(record));
}

// Whether everything the policy wants is so already.
bool is_satisfied(const decision_record& record) {
  const auto is_so = [](const candidate& c) {
    return c.removed_by == filter::already_there || c.removed_by == filter::not_needed ||
           c.removed_by == filter::already_moving;
  };
  return record.notes.empty() && record.moves.empty() &&
         std::ranges::all_of(record.candidates, is_so);
}

// A number for why nothing was moved, the same whatever the order of the candidates; never 0.
std::uint64_t reasons_of(const decision_record& record) {
  const auto number_of = [](const std::string& text) {
    std::uint64_t n = 0xcbf29ce484222325;  // FNV-1a
    for (const char letter : text) n = (n ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    return n;
  };
  std::uint64_t sum = 1;
  for (const candidate& c : record.candidates)
    sum += number_of(c.subject + ": " + to_string(c.removed_by));
  // Those of a plan without candidates are why it declined; others have numbers that change.
  if (record.candidates.empty())
    for (const std::string& note : record.notes) sum += number_of(note);
  return sum == 0 ? 1 : sum;
}

// Returns whether there is anything to tell.
bool tick::plan_more(const fired& f, decision_record& record) {
  policy_memory& memory = state_.policies[f.rule_index];
  latch_state& latch = memory.latches[f.latch_index].latch;
  hold_on(state_, record.policy, record.object);
  if (memory.retry_ms != reading::never && now_.time_ms < memory.retry_ms) {
    planned(latch, now_.time_ms, 0);
    return false;
  }
  const std::optional<proposal> p = ask(f, lua::entry_point::plan, record);
  if (p) latch.yielding = !p->yield_reason.empty();
  const std::uint32_t moves = p ? bind_and_issue(f, wants(f), *p, record) : 0;
  planned(latch, now_.time_ms, moves, p && planner().brings_a_trifle());
  // A policy that has done all it wants stays engaged; that is no news. Promotion looks once a
  // minute, and tells what it does; and when it begins, which devices it leaves out.
  if (std::holds_alternative<promotion_action>(rules_[f.rule_index].action))
    return !record.moves.empty() || (!f.was_engaged && !record.notes.empty());
  // Nor is it that nothing could be moved again, for the same reasons.
  if (record.event == decision_event::faulted) return true;
  const std::uint64_t why = record.moves.empty() ? reasons_of(record) : 0;
  const bool told = std::exchange(latch.told, why) == why && why != 0;
  return !f.was_engaged || (!told && !is_satisfied(record));
}

// What a policy that engages wants.
occasion tick::wants(const fired& f) const {
  const rule& r = rules_[f.rule_index];
  const latch_state& latch = state_.policies[f.rule_index].latches[f.latch_index].latch;
  occasion why;
  const auto* action = std::get_if<declarative_action>(&r.action);
  const bool takes_from_others = action != nullptr && !action->from.empty();
  if (!takes_from_others && (relieves(r) || latch.yielding)) {
    why.relieved = relieved_device(f.object);
  }
  if (latch.mean_engaged_ms > 0) why.stay_ms = latch.mean_engaged_ms;
  if (std::holds_alternative<promotion_action>(r.action)) why.stay_ms = promoted_stay_ms;
  return why;
}

void tick::undo(const fired& f, decision_record& record) {
  const rule& r = rules_[f.rule_index];
  state_.policies[f.rule_index].latches[f.latch_index].latch.yielding = false;
  if (r.mode == rule_mode::shadow) {
    record.notes.push_back("In shadow mode nothing was moved, so nothing goes home.");
    return;
  }
  if (r.undo == undo_kind::none) {
    const int count = forget(state_, record.policy, record.object);
    if (count > 0) record.notes.push_back("What it moved stays where it is.");
    return;
  }
  proposal p;
  p.restore = true;
  p.restore_reason = met_clause(r.leave, f.object);
  if (r.undo == undo_kind::script) {
    const std::optional<proposal> asked = ask(f, lua::entry_point::undo, record);
    // What a policy took away must not stay away because its undo is broken.
    if (asked) p = *asked;
  }
  latch_state& latch = state_.policies[f.rule_index].latches[f.latch_index].latch;
  going_home(latch, bind_and_issue(f, goes_home(latch), p, record));
  // What the undo did not bring home stays, and is no longer this policy's.
  forget(state_, record.policy, record.object);
}

proposal tick::promote(const fired& f) {
  promotion_.emplace(now_, state_);
  return promotion_->propose(rules_[f.rule_index], [&](const device_state& d) {
    promotion::allowance a;
    a.room_bytes = planner().room(d).value_or(0);
    if (const rule* other = planner().relieved_by(d))
      a.left_alone = "policy '" + other->name + "' is relieving it";
    if (find_yield(now_, d.name) != nullptr) a.left_alone = "someone wants its memory";
    return a;
  });
}

// What filters took out may have been what the others were for.
bool tick::still_gains(const std::vector<planned_move>& moves, decision_record& record) const {
  if (promotion_->still_gains(moves, record)) return true;
  record.notes.push_back("What is left of these moves would make a token slower, so none is made.");
  return false;
}

std::optional<proposal> tick::ask(const fired& f, lua::entry_point entry, decision_record& record) {
  const rule& r = rules_[f.rule_index];
  if (std::holds_alternative<promotion_action>(r.action)) return promote(f);
  if (const auto* action = std::get_if<declarative_action>(&r.action)) {
    return propose(r, *action, f.object);
  }
  policy_memory& memory = state_.policies[f.rule_index];
  auto answer = lua::propose(r, std::get<lua_action>(r.action), entry, f.object);
  if (answer) {
    if (!answer->yield_reason.empty()) propose_yield({}, f.object, *answer);
    memory.faults = 0;
    memory.retry_ms = reading::never;
    return std::move(*answer);
  }
  fault(memory, to_string(answer.error()), record);
  return std::nullopt;
}

void tick::fault(policy_memory& memory, const std::string& why, decision_record& record) {
  const int doublings = std::min(memory.faults, 10);
  const std::int64_t wait = std::min(first_fault_backoff_ms << doublings, last_fault_backoff_ms);
  memory.retry_ms = now_.time_ms + wait;
  ++memory.faults;
  record.event = decision_event::faulted;
  record.notes.push_back("The policy failed and is skipped for a while: " + why);
}

void tick::apply_restore(const fired& f, const proposal& p, decision_record& record) {
  if (!p.restore || rules_[f.rule_index].mode == rule_mode::shadow) return;
  const int count = let_go(state_, record.policy, record.object, p.restore_reason);
  if (count == 0) record.notes.push_back("It holds nothing away from home.");
}

std::uint32_t tick::bind_and_issue(const fired& f, const occasion& why, const proposal& p,
                                   decision_record& record) {
  const rule& r = rules_[f.rule_index];
  policy_memory& memory = state_.policies[f.rule_index];
  record.notes.insert(record.notes.end(), p.notes.begin(), p.notes.end());
  apply_restore(f, p, record);
  std::vector<planned_move> moves = planner().bind(r, why, p, memory, record);
  const bool promotes = std::holds_alternative<promotion_action>(r.action);
  if (promotes && !still_gains(moves, record)) moves.clear();
  const auto count = static_cast<std::uint32_t>(moves.size());
  for (planned_move& m : moves) issue(r, memory, std::move(m), record);
  pin_flaps(r, memory, record.object);
  return r.mode == rule_mode::enforce ? count : 0;
}

// Where a subject belongs when no policy has moved it yet.
std::string home_of(const snapshot& now, const planned_move& m) {
  if (m.kind == subject_kind::part) return m.from;
  const session_state* s = find_session(now, m.subject);
  return s != nullptr ? s->home : std::string();
}

void tick::spend(const rule& r, policy_memory& memory, std::uint64_t bytes) {
  if (r.limit.bytes == 0) return;
  std::erase_if(memory.spent,
                [&](const auto& s) { return now_.time_ms - s.first >= r.limit.per_ms; });
  memory.spent.emplace_back(now_.time_ms, bytes);
}

// What came home too often stays away for a while, and its policy waits longer.
void tick::pin_flaps(const rule& r, policy_memory& memory, const std::string& object) {
  const std::vector<flap>& flaps = planner().flaps();
  if (flaps.empty()) return;
  decision_record record = new_record(r, object, decision_event::flapped);
  for (const flap& f : flaps) {
    flap_memory& known = state_.flaps[f.subject];
    known.pinned_until_ms = now_.time_ms + r.flapping.per_ms;
    known.device = f.device;
    candidate c;
    c.kind = f.subject.kind;
    c.subject = f.subject.name;
    c.from = f.device;
    c.removed_by = filter::flapping;
    c.detail = "it came home " + std::to_string(r.flapping.times) + " times in " +
               format_duration(r.flapping.per_ms);
    record.candidates.push_back(std::move(c));
  }
  std::string note =
      "What came home too often is pinned where it is for " + format_duration(r.flapping.per_ms);
  const auto at = std::ranges::find(memory.latches, object, &object_latch::object);
  if (at != memory.latches.end()) {
    flapped(at->latch, r, now_.time_ms);
    note += ", and the cool-down is " + format_duration(cooldown_ms(at->latch, r, now_.time_ms)) +
            " for now";
  }
  record.notes.push_back(note + ".");
  flapped_.push_back(std::move(record));
}

void tick::issue(const rule& r, policy_memory& memory, planned_move m, decision_record& record) {
  if (record.mode == rule_mode::shadow) {
    record.moves.push_back(m);
    out_.planned.shadow.push_back(std::move(m));
    return;
  }
  m.id = state_.next_move++;
  const subject_ref subject{m.kind, m.subject};
  const auto held = state_.held.find(subject);
  const bool goes_home =
      m.action == verb::fetch || (held != state_.held.end() && held->second.home == m.to);
  bool adds_hold = false;
  if (goes_home) {
    // Should it fail, it is tried again as any homecoming.
    let_go(state_, m.policy, record.object, m.reason, &subject);
    if (held != state_.held.end()) {
      held->second.put_on = m.to;
      held->second.blocked_by = filter::none;
      held->second.room_since_ms = reading::never;
    }
  } else {
    // Where a part is promoted to, it is at home.
    if (!std::holds_alternative<promotion_action>(r.action))
      adds_hold = hold_away(state_, m, record.object, home_of(now_, m));
  }
  spend(r, memory, m.bytes);
  if (now_.limits.link_bytes > 0) {
    state_.link_spent[{m.from, m.to}].emplace_back(now_.time_ms, m.bytes);
  }
  state_.issued[m.id] = issued_move{m, record.object, now_.time_ms, goes_home, adds_hold};
  record.moves.push_back(m);
  out_.planned.moves.push_back(std::move(m));
}

// The record of this tick in which the policy let go, or a new one.
decision_record& tick::record_for(const rule& r, const std::string& object) {
  for (decision_record& known : out_.records) {
    if (known.policy == r.name && known.object == object) return known;
  }
  out_.records.push_back(new_record(r, object, decision_event::restored));
  return out_.records.back();
}

void tick::bring_home() {
  std::map<std::pair<std::string, std::string>, std::vector<homecoming>> by_owner;
  for (homecoming& h : homecomings(state_, now_)) {
    by_owner[{h.released->policy, h.released->object}].push_back(std::move(h));
  }
  for (const auto& [owner, list] : by_owner) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rules_[i].name == owner.first) {
        bring_home_for(rules_[i], state_.policies[i], owner.second, list);
      }
    }
  }
}

intent homeward(const homecoming& h) {
  intent i;
  i.action = h.subject.kind == subject_kind::part ? verb::move : verb::fetch;
  i.kind = h.subject.kind;
  i.subject = h.subject.name;
  i.reason = h.released->reason;
  if (!h.held->home.empty()) i.to.push_back({target_kind::device, h.held->home});
  return i;
}

// What there was no room for goes home only when the room has lasted as long as `leave` asks: its
// policy released because it had taken things away, which says nothing about bringing them back.
bool tick::has_lasted(const rule& r, const planned_move& m) {
  holding& held = state_.held.at({m.kind, m.subject});
  if (held.blocked_by != filter::no_room) return true;
  if (held.room_since_ms == reading::never) held.room_since_ms = now_.time_ms;
  return now_.time_ms - held.room_since_ms >= longest_held_ms(r.leave);
}

void tick::bring_home_for(const rule& r, policy_memory& memory, const std::string& object,
                          const std::vector<homecoming>& list) {
  decision_record scratch;
  proposal p;
  for (const homecoming& h : list) {
    if (h.kept_by == nullptr) {
      p.wanted.push_back(homeward(h));
      continue;
    }
    candidate c{verb::move,
                h.subject.kind,
                h.subject.name,
                h.held->put_on,
                h.held->home,
                0,
                0,
                0,
                filter::held_away,
                "policy '" + h.kept_by->policy + "' still holds it away",
                {}};
    scratch.candidates.push_back(std::move(c));
  }
  const auto latch = std::ranges::find(memory.latches, object, &object_latch::object);
  const latch_state none;
  const occasion why = goes_home(latch != memory.latches.end() ? latch->latch : none);
  std::vector<planned_move> moves = planner().bind(r, why, p, memory, scratch);
  pin_flaps(r, memory, object);
  std::erase_if(moves, [&](const planned_move& m) { return !has_lasted(r, m); });
  bool news = !moves.empty();
  for (const candidate& c : scratch.candidates) {
    if (c.removed_by == filter::none || c.removed_by == filter::already_moving) continue;
    holding& held = state_.held.at({c.kind, c.subject});
    news = news || held.blocked_by != c.removed_by;
    held.blocked_by = c.removed_by;
    held.room_since_ms = reading::never;
  }
  // A thing that is kept from home by the same as in the last tick is no news.
  if (!news) return;
  decision_record& record = record_for(r, object);
  for (candidate& c : scratch.candidates) {
    const bool waits = c.removed_by == filter::none &&
                       std::ranges::find(moves, c.subject, &planned_move::subject) == moves.end();
    if (!waits) record.candidates.push_back(std::move(c));
  }
  const auto count = static_cast<std::uint32_t>(moves.size());
  for (planned_move& m : moves) {
    m.decision = record.id;
    issue(r, memory, std::move(m), record);
  }
  if (latch != memory.latches.end()) going_home(latch->latch, count);
}

}  // namespace

decision evaluate(const policy_set& policies, const snapshot& now, pipeline_state& state) {
  bind_memories(policies, state);
  absorb_moves(now, state);
  reconcile(state, now);
  return tick(policies, now, state).run();
}

}  // namespace terrane::policies
