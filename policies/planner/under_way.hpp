// Moves that have begun and not ended: those that policies planned, and those that people asked
// for, which only the snapshot shows. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct move_under_way {
  subject_kind kind = subject_kind::part;
  std::string subject;
  std::string to;
  std::uint64_t bytes = 0;
  bool by_policy = false;
};
std::vector<move_under_way> moves_under_way(const snapshot& now, const pipeline_state& state);

bool is_under_way(const snapshot& now, const pipeline_state& state, const subject_ref& subject);

// Whether the snapshot shows the move: the engine has begun it.
bool has_begun(const snapshot& now, std::uint64_t id);

}  // namespace terrane::policies
