#include "policies/latch/latch.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

constexpr int samples_to_settle = 2;
constexpr std::int64_t first_retry_ms = 2000;
constexpr std::int64_t last_retry_ms = 60'000;
// What is doubled where a policy has less of a cool-down, or none.
constexpr std::int64_t least_doubled_ms = 5000;
constexpr std::int32_t most_doublings = 10;

// What a condition comes to, with the age of the evidence.
struct judgement {
  verdict now = verdict::missing;
  std::int64_t sample_ms = reading::never;  // the oldest fresh sample it rests on
};

verdict after_hold(std::int64_t since_ms, std::int64_t sample_ms, std::int64_t held_ms) {
  return sample_ms - since_ms >= held_ms ? verdict::met : verdict::not_met;
}

judgement judge(const term& t, std::int64_t& since_ms, const object_ref& object) {
  const reading r = metric(t.metric).read(object);
  if (!r.present() || r.stale(object.now->time_ms)) {
    // What happened meanwhile is unknown, so the hold begins anew.
    since_ms = reading::never;
    return {r.present() ? verdict::stale : verdict::missing, reading::never};
  }
  if (!compares(t, r.value)) {
    since_ms = reading::never;
    return {verdict::not_met, r.sampled_ms};
  }
  if (since_ms == reading::never) since_ms = r.sampled_ms;
  return {after_hold(since_ms, r.sampled_ms, t.held_ms), r.sampled_ms};
}

// Three-valued: what is stale or missing decides nothing, unless the others decide without it.
verdict combined(combination how, verdict a, verdict b) {
  const verdict decisive = how == combination::all_of ? verdict::not_met : verdict::met;
  if (a == decisive || b == decisive) return decisive;
  const auto unknown = [](verdict v) { return v == verdict::stale || v == verdict::missing; };
  if (unknown(a)) return a;
  return b;
}

std::int64_t older(std::int64_t a, std::int64_t b) {
  if (a == reading::never) return b;
  if (b == reading::never) return a;
  return std::min(a, b);
}

judgement judge(const condition& c, condition_state& state, const object_ref& object) {
  judgement all;
  for (std::size_t i = 0; i < c.terms.size(); ++i) {
    const judgement one = judge(c.terms[i], state.term_since_ms[i], object);
    all.now = i == 0 ? one.now : combined(c.how, all.now, one.now);
    all.sample_ms = older(all.sample_ms, one.sample_ms);
  }
  if (all.now != verdict::met) {
    state.since_ms = reading::never;
    return all;
  }
  if (state.since_ms == reading::never) state.since_ms = all.sample_ms;
  all.now = after_hold(state.since_ms, all.sample_ms, c.held_ms);
  return all;
}

bool is_unknown(const judgement& j) { return j.now == verdict::stale || j.now == verdict::missing; }

// The oldest fresh sample that the two conditions rest on; never when there is none.
std::int64_t evidence_ms(const rule& r, const object_ref& object) {
  std::int64_t oldest = reading::never;
  for (const condition* c : {&r.enter, &r.leave}) {
    for (const term& t : c->terms) {
      const reading sample = metric(t.metric).read(object);
      if (!sample.present() || sample.stale(object.now->time_ms)) continue;
      oldest = older(oldest, sample.sampled_ms);
    }
  }
  return oldest;
}

// Whether its own moves have ended and shown their effect.
bool settle(latch_state& latch, const rule& r, const object_ref& object) {
  if (latch.unfinished_moves > 0) return false;
  if (latch.newer_samples >= samples_to_settle) return true;
  const std::int64_t sample = evidence_ms(r, object);
  latch.stale = sample == reading::never;
  if (sample != reading::never && sample > latch.settled_after_ms &&
      sample > latch.newest_sample_ms) {
    latch.newest_sample_ms = sample;
    ++latch.newer_samples;
  }
  return latch.newer_samples >= samples_to_settle;
}

bool may_retry(const latch_state& latch, std::int64_t now_ms) {
  return latch.retry_ms == reading::never || now_ms >= latch.retry_ms;
}

bool may_plan(const latch_state& latch, const rule& r, std::int64_t now_ms) {
  const bool cooled = latch.planned_ms == reading::never ||
                      now_ms - latch.planned_ms >= cooldown_ms(latch, r, now_ms);
  return cooled && may_retry(latch, now_ms);
}

// Integers, so that it is the same on every machine.
void add_to_mean(std::int64_t& mean, std::int64_t value) {
  mean = mean == 0 ? value : (3 * mean + value) / 4;
}

void change(latch_state& latch, latch_phase to, std::int64_t now_ms) {
  if (latch.changed_ms != reading::never) {
    std::int64_t& mean =
        latch.phase == latch_phase::engaged ? latch.mean_engaged_ms : latch.mean_idle_ms;
    add_to_mean(mean, std::max<std::int64_t>(1, now_ms - latch.changed_ms));
  }
  latch.phase = to;
  latch.changed_ms = now_ms;
}

// Whether the emergency level is reached and a plan may be tried.
bool is_emergency(latch_state& latch, const rule& r, const object_ref& object) {
  if (r.emergency.terms.empty()) return false;
  return judge(r.emergency, latch.emergency, object).now == verdict::met &&
         may_retry(latch, object.now->time_ms);
}

latch_signal step_idle(latch_state& latch, const rule& r, const object_ref& object) {
  const judgement enter = judge(r.enter, latch.enter, object);
  const bool urgent = is_emergency(latch, r, object);
  latch.stale = is_unknown(enter);
  const bool due = enter.now == verdict::met && may_plan(latch, r, object.now->time_ms);
  if (!due && !urgent) return latch_signal::none;
  change(latch, latch_phase::engaged, object.now->time_ms);
  latch.leave = {};
  return due ? latch_signal::entered : latch_signal::emergency;
}

latch_signal step_engaged(latch_state& latch, const rule& r, const object_ref& object) {
  const judgement leave = judge(r.leave, latch.leave, object);
  const judgement enter = judge(r.enter, latch.enter, object);
  const bool urgent = is_emergency(latch, r, object);
  latch.stale = is_unknown(leave);
  if (leave.now == verdict::met) {
    change(latch, latch_phase::idle, object.now->time_ms);
    latch.enter = {};
    latch.emergency = {};
    latch.futile_plans = 0;
    latch.retry_ms = reading::never;
    return latch_signal::left;
  }
  const bool more = enter.now == verdict::met && may_plan(latch, r, object.now->time_ms);
  if (more) return latch_signal::again;
  return urgent ? latch_signal::emergency : latch_signal::none;
}

void await_moves(latch_state& latch, std::uint32_t moves) {
  latch.unfinished_moves += moves;
  latch.newer_samples = 0;
  latch.newest_sample_ms = reading::never;
  latch.settled_after_ms = reading::never;
  latch.enter = {};
  latch.leave = {};
  latch.emergency = {};
}

void back_off(latch_state& latch, std::int64_t now_ms) {
  const int doublings = std::min(latch.futile_plans, 10);
  latch.retry_ms = now_ms + std::min(first_retry_ms << doublings, last_retry_ms);
  ++latch.futile_plans;
}

}  // namespace

latch_signal step(latch_state& latch, const rule& r, const object_ref& object) {
  if (!settle(latch, r, object)) return latch_signal::none;
  return latch.phase == latch_phase::idle ? step_idle(latch, r, object)
                                          : step_engaged(latch, r, object);
}

void planned(latch_state& latch, std::int64_t now_ms, std::uint32_t moves, bool trifle) {
  latch.planned_ms = now_ms;
  if (moves > 0) {
    latch.moved_something = false;
    latch.trifle = trifle;
    await_moves(latch, moves);
  }
  if (moves == 0 || trifle) back_off(latch, now_ms);
}

void going_home(latch_state& latch, std::uint32_t moves) {
  if (moves == 0) return;
  latch.moved_something = true;  // should they fail, each is tried again later by itself
  await_moves(latch, moves);
}

std::int64_t cooldown_ms(const latch_state& latch, const rule& r, std::int64_t now_ms) {
  const bool flaps =
      latch.flapped_ms != reading::never && now_ms - latch.flapped_ms < 2 * r.flapping.per_ms;
  if (!flaps) return r.cooldown_ms;
  return std::max(r.cooldown_ms, least_doubled_ms) << latch.cooldown_doublings;
}

void flapped(latch_state& latch, const rule& r, std::int64_t now_ms) {
  const bool flaps_still = cooldown_ms(latch, r, now_ms) != r.cooldown_ms;
  latch.cooldown_doublings =
      flaps_still ? std::min(latch.cooldown_doublings + 1, most_doublings) : 1;
  latch.flapped_ms = now_ms;
}

void move_ended(latch_state& latch, std::int64_t completed_ms, bool moved) {
  latch.settled_after_ms = std::max(latch.settled_after_ms, completed_ms);
  latch.moved_something = latch.moved_something || moved;
  if (latch.unfinished_moves == 0 || --latch.unfinished_moves > 0) return;
  if (!latch.moved_something) {
    back_off(latch, completed_ms);
  } else if (!latch.trifle) {
    latch.futile_plans = 0;
    latch.retry_ms = reading::never;
  }
}

std::vector<condition_value> describe(const condition& c, const condition_state& state,
                                      const object_ref& object) {
  std::vector<condition_value> values;
  condition_state scratch = state;
  for (std::size_t i = 0; i < c.terms.size(); ++i) {
    const term& t = c.terms[i];
    const reading r = metric(t.metric).read(object);
    condition_value v;
    v.metric = t.metric;
    v.compare = t.compare;
    v.limit = t.limit;
    v.upper = t.upper;
    v.value = r.value;
    v.where = t.where;
    v.judged = judge(t, scratch.term_since_ms[i], object).now;
    v.held_ms = std::max(t.held_ms, c.held_ms);
    if (r.present()) v.age_ms = object.now->time_ms - r.sampled_ms;
    const std::int64_t since =
        std::max(state.term_since_ms[i], c.held_ms > 0 ? state.since_ms : reading::never);
    if (r.present() && since != reading::never) {
      v.met_for_ms = std::max<std::int64_t>(0, r.sampled_ms - since);
    }
    values.push_back(v);
  }
  return values;
}

}  // namespace terrane::policies
