// The start of a tick: the state is bound to the current policy set, and what became of the moves
// that were planned is taken in. They work on the state given; one thread at a time.
#pragma once

#include <string>

#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// A planned move that no snapshot mentions for this long is taken for failed.
inline constexpr std::int64_t unreported_move_ms = 60'000;

// Puts the memories of policies in the order of the set. Policies that are gone are forgotten, with
// what they held; new ones begin idle.
void bind_memories(const policy_set& policies, pipeline_state& state);

// Ends the moves that the snapshot reports as completed, and those that were lost.
void absorb_moves(const snapshot& now, pipeline_state& state);

// The latch of an object that is the policy's `index`th in this snapshot.
object_latch& latch_at(policy_memory& memory, std::size_t index, const std::string& object);
// Drops the latches after the first `count`, whose objects are gone; what they held goes home.
void drop_latches(pipeline_state& state, policy_memory& memory, std::size_t count);

}  // namespace terrane::policies
