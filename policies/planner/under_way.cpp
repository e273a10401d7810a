#include "policies/planner/under_way.hpp"

#include <algorithm>

namespace terrane::policies {

std::vector<move_under_way> moves_under_way(const snapshot& now, const pipeline_state& state) {
  std::vector<move_under_way> found;
  for (const auto& [id, issued] : state.issued) {
    const planned_move& m = issued.move;
    found.push_back({m.kind, m.subject, m.to, m.bytes, true});
  }
  for (const move_in_progress& m : now.moving)
    if (!state.issued.contains(m.id)) found.push_back({m.kind, m.subject, m.to, m.bytes, false});
  return found;
}

bool is_under_way(const snapshot& now, const pipeline_state& state, const subject_ref& subject) {
  const auto is_it = [&](const auto& m) {
    return m.kind == subject.kind && m.subject == subject.name;
  };
  return std::ranges::any_of(now.moving, is_it) ||
         std::ranges::any_of(state.issued, [&](const auto& i) { return is_it(i.second.move); });
}

bool has_begun(const snapshot& now, std::uint64_t id) {
  return std::ranges::any_of(now.moving, [id](const move_in_progress& m) { return m.id == id; });
}

}  // namespace terrane::policies
