#include "policies/planner/holds.hpp"

#include <algorithm>

#include "policies/planner/under_way.hpp"

namespace terrane::policies {
namespace {

bool is_by(const hold& h, const std::string& policy, const std::string& object) {
  return h.policy == policy && h.object == object;
}

void add_if_released(std::vector<homecoming>& list, const subject_ref& subject,
                     const holding& held) {
  homecoming h{subject, &held, nullptr, nullptr};
  for (const hold& one : held.by) (one.releasing ? h.released : h.kept_by) = &one;
  if (h.released != nullptr) list.push_back(std::move(h));
}

}  // namespace

const hold* held_by_other(const pipeline_state& state, const subject_ref& subject,
                          const std::string& mine) {
  const auto at = state.held.find(subject);
  if (at == state.held.end()) return nullptr;
  for (const hold& h : at->second.by) {
    if (!h.releasing && h.policy != mine) return &h;
  }
  return nullptr;
}

bool hold_away(pipeline_state& state, const planned_move& m, const std::string& object,
               const std::string& home) {
  const auto [at, is_new] = state.held.try_emplace({m.kind, m.subject});
  holding& held = at->second;
  if (is_new) held.home = home;
  held.put_on = m.to;
  held.blocked_by = filter::none;
  held.room_since_ms = reading::never;
  for (hold& h : held.by) {
    if (!is_by(h, m.policy, object)) continue;
    h.releasing = false;
    return false;
  }
  held.by.push_back({m.policy, object, false, {}});
  return true;
}

void hold_on(pipeline_state& state, const std::string& policy, const std::string& object) {
  for (auto& [subject, held] : state.held) {
    for (hold& h : held.by) {
      if (is_by(h, policy, object)) h.releasing = false;
    }
  }
}

int let_go(pipeline_state& state, const std::string& policy, const std::string& object,
           const std::string& reason, const subject_ref* only) {
  int count = 0;
  for (auto& [subject, held] : state.held) {
    if (only != nullptr && subject != *only) continue;
    for (hold& h : held.by) {
      if (!is_by(h, policy, object)) continue;
      h.releasing = true;
      h.reason = reason;
      ++count;
    }
  }
  return count;
}

int forget(pipeline_state& state, const std::string& policy, const std::string& object) {
  int count = 0;
  for (auto at = state.held.begin(); at != state.held.end();) {
    std::vector<hold>& by = at->second.by;
    count += static_cast<int>(
        std::erase_if(by, [&](const hold& h) { return is_by(h, policy, object) && !h.releasing; }));
    at = by.empty() ? state.held.erase(at) : std::next(at);
  }
  return count;
}

void drop_holds(pipeline_state& state, const std::string& policy) {
  for (auto at = state.held.begin(); at != state.held.end();) {
    std::erase_if(at->second.by, [&](const hold& h) { return h.policy == policy; });
    at = at->second.by.empty() ? state.held.erase(at) : std::next(at);
  }
}

void reconcile(pipeline_state& state, const snapshot& now) {
  if (state.held.empty()) return;
  std::size_t present = 0;
  for (const part_state& p : now.parts) {
    const subject_ref subject{subject_kind::part, p.name};
    const auto at = state.held.find(subject);
    if (at == state.held.end()) continue;
    // Where a person has put it, be it there already, it is at home.
    const bool not_ours = p.device != at->second.put_on || p.placed_by_user;
    if (not_ours && !is_under_way(now, state, subject)) {
      state.held.erase(at);
    } else {
      ++present;
    }
  }
  for (const session_state& s : now.sessions) {
    present += state.held.count({subject_kind::session_kv, s.id});
  }
  if (present == state.held.size()) return;
  std::erase_if(state.held, [&](const auto& entry) {
    const subject_ref& subject = entry.first;
    return subject.kind == subject_kind::part ? find_part(now, subject.name) == nullptr
                                              : find_session(now, subject.name) == nullptr;
  });
}

bool is_pinned_for_flapping(const snapshot& now, const pipeline_state& state,
                            const subject_ref& subject) {
  const auto at = state.flaps.find(subject);
  return at != state.flaps.end() && at->second.pinned_until_ms != reading::never &&
         now.time_ms < at->second.pinned_until_ms;
}

std::vector<homecoming> homecomings(const pipeline_state& state, const snapshot& now) {
  std::vector<homecoming> list;
  if (state.held.empty()) return list;
  const auto consider = [&](const subject_ref& subject) {
    const auto at = state.held.find(subject);
    if (at != state.held.end()) add_if_released(list, subject, at->second);
  };
  for (const part_state& p : now.parts) consider({subject_kind::part, p.name});
  for (const session_state& s : now.sessions) consider({subject_kind::session_kv, s.id});
  return list;
}

}  // namespace terrane::policies
