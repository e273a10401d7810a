#include "policies/pipeline/absorb.hpp"

#include <algorithm>
#include <utility>

#include "policies/planner/holds.hpp"
#include "policies/planner/under_way.hpp"

namespace terrane::policies {
namespace {

constexpr std::int64_t first_backoff_ms = 5000;
constexpr std::int64_t last_backoff_ms = 600'000;

void note_failure(pipeline_state& state, const planned_move& m, bool was_idle,
                  std::int64_t now_ms) {
  failure_memory& f = state.failures[{subject_ref{m.kind, m.subject}, m.to}];
  f.was_idle = was_idle;
  const int doublings = std::min(f.count, 10);
  f.retry_ms = now_ms + std::min(first_backoff_ms << doublings, last_backoff_ms);
  ++f.count;
}

latch_state* find_latch(pipeline_state& state, const std::string& policy,
                        const std::string& object) {
  for (policy_memory& m : state.policies) {
    if (m.policy != policy) continue;
    const auto at = std::ranges::find(m.latches, object, &object_latch::object);
    return at == m.latches.end() ? nullptr : &at->latch;
  }
  return nullptr;
}

// The subject is where it was: the hold that the move would have made is no more.
void undo_hold(pipeline_state& state, const issued_move& issued) {
  const planned_move& m = issued.move;
  const auto at = state.held.find({m.kind, m.subject});
  if (at == state.held.end()) return;
  at->second.put_on = m.from;
  if (issued.adds_hold) {
    std::erase_if(at->second.by,
                  [&](const hold& h) { return h.policy == m.policy && h.object == issued.object; });
  }
  if (at->second.by.empty()) state.held.erase(at);
}

// No policy may ask for more (most_flaps), nor for longer ago.
void note_return(pipeline_state& state, const subject_ref& subject, std::int64_t at_ms) {
  std::vector<std::int64_t>& returns = state.flaps[subject].returns_ms;
  returns.push_back(at_ms);
  if (returns.size() > static_cast<std::size_t>(most_flaps)) returns.erase(returns.begin());
}

void end_move(pipeline_state& state, const issued_move& issued, move_outcome outcome,
              std::int64_t completed_ms, std::int64_t now_ms) {
  const planned_move& m = issued.move;
  const subject_ref subject{m.kind, m.subject};
  if (outcome == move_outcome::done) {
    state.failures.erase({subject, m.to});
    if (issued.goes_home) {
      state.held.erase(subject);
      note_return(state, subject, completed_ms);
    }
  } else {
    note_failure(state, m, outcome == move_outcome::idle, now_ms);
    // What has nothing to bring home is at home.
    if (issued.goes_home && outcome == move_outcome::idle) {
      state.held.erase(subject);
    } else {
      undo_hold(state, issued);
    }
  }
  if (latch_state* latch = find_latch(state, m.policy, issued.object)) {
    // What failed is tried elsewhere, and there again later, by itself.
    move_ended(*latch, completed_ms, outcome != move_outcome::idle);
  }
}

void forget_old_flaps(const snapshot& now, pipeline_state& state) {
  for (auto at = state.flaps.begin(); at != state.flaps.end();) {
    flap_memory& f = at->second;
    const bool pinned = f.pinned_until_ms != reading::never && now.time_ms < f.pinned_until_ms;
    if (!pinned) f.pinned_until_ms = reading::never;
    std::erase_if(f.returns_ms,
                  [&](std::int64_t time) { return now.time_ms - time >= longest_flap_ms; });
    at = !pinned && f.returns_ms.empty() ? state.flaps.erase(at) : std::next(at);
  }
}

// What a person moved since is theirs: it is pinned no more, and its past does not count.
void forget_flaps_of_moved(const snapshot& now, pipeline_state& state) {
  std::erase_if(state.flaps, [&](const auto& entry) {
    const flap_memory& f = entry.second;
    if (entry.first.kind != subject_kind::part)
      return find_session(now, entry.first.name) == nullptr;
    const part_state* p = find_part(now, entry.first.name);
    const bool pinned = f.pinned_until_ms != reading::never;
    return p == nullptr || (pinned && p->device != f.device);
  });
}

void forget_old_spendings(const snapshot& now, pipeline_state& state) {
  for (auto at = state.link_spent.begin(); at != state.link_spent.end();) {
    std::erase_if(at->second, [&](const spent_bytes& s) {
      return now.time_ms - s.first >= now.limits.link_per_ms;
    });
    at = at->second.empty() ? state.link_spent.erase(at) : std::next(at);
  }
}

void forget_old_failures(const snapshot& now, pipeline_state& state) {
  std::erase_if(state.failures, [&](const auto& entry) {
    return now.time_ms - entry.second.retry_ms > last_backoff_ms;
  });
}

bool is_known(const pipeline_state& state, const hold& h) {
  return std::ranges::find(state.policies, h.policy, &policy_memory::policy) !=
         state.policies.end();
}

}  // namespace

void bind_memories(const policy_set& policies, pipeline_state& state) {
  const bool same = state.revision == policies.revision();
  // A state that an earlier version wrote may know fewer built-in policies.
  if (same && state.policies.size() == policies.asked().size()) return;
  std::vector<policy_memory> bound;
  for (const rule& r : policies.asked()) {
    const auto old = std::ranges::find(state.policies, r.name, &policy_memory::policy);
    bound.push_back(old != state.policies.end() ? std::move(*old) : policy_memory{});
    bound.back().policy = r.name;
    if (same) continue;
    // A changed policy may be right now, so it gets another try.
    bound.back().faults = 0;
    bound.back().retry_ms = reading::never;
  }
  state.policies = std::move(bound);
  state.revision = policies.revision();
  for (auto at = state.held.begin(); at != state.held.end();) {
    std::erase_if(at->second.by, [&](const hold& h) { return !is_known(state, h); });
    at = at->second.by.empty() ? state.held.erase(at) : std::next(at);
  }
}

void absorb_moves(const snapshot& now, pipeline_state& state) {
  for (const completed_move& c : now.completed) {
    const auto at = state.issued.find(c.id);
    if (at == state.issued.end()) continue;
    const issued_move issued = std::move(at->second);
    state.issued.erase(at);
    end_move(state, issued, c.outcome, c.completed_ms, now.time_ms);
  }
  for (auto at = state.issued.begin(); at != state.issued.end();) {
    const bool lost =
        now.time_ms - at->second.planned_ms > unreported_move_ms && !has_begun(now, at->first);
    if (!lost) {
      ++at;
      continue;
    }
    const issued_move issued = std::move(at->second);
    at = state.issued.erase(at);
    end_move(state, issued, move_outcome::failed, now.time_ms, now.time_ms);
  }
  forget_old_failures(now, state);
  forget_old_flaps(now, state);
  forget_flaps_of_moved(now, state);
  forget_old_spendings(now, state);
}

object_latch& latch_at(policy_memory& memory, std::size_t index, const std::string& object) {
  std::vector<object_latch>& latches = memory.latches;
  if (index < latches.size() && latches[index].object == object) return latches[index];
  const auto from = latches.begin() + static_cast<std::ptrdiff_t>(std::min(index, latches.size()));
  const auto at =
      std::find_if(from, latches.end(), [&](const object_latch& l) { return l.object == object; });
  if (at == latches.end()) return *latches.insert(from, object_latch{object, {}});
  std::rotate(from, at, std::next(at));
  return *from;
}

void drop_latches(pipeline_state& state, policy_memory& memory, std::size_t count) {
  for (std::size_t i = count; i < memory.latches.size(); ++i) {
    const std::string& object = memory.latches[i].object;
    let_go(state, memory.policy, object, object + " is no longer there");
  }
  memory.latches.resize(std::min(count, memory.latches.size()));
}

}  // namespace terrane::policies
