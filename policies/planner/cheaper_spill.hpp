// `spill: cheaper`: KV or weights of a device that is short of room, whichever adds less to a
// token. Fills the question of placement/spill_choice.hpp from what a snapshot has measured, and
// turns the answer into intents. Pure; any thread.
//
// What it rests on: how long feed-forwards and experts take on either device
// (part_state::measured), which is the bytes of their matrices over the speed at which they are
// read; and how fast KV is read there (device_state::kv_bytes_per_s), where that was measured on
// both devices. Else KV is taken to be read as fast as matrices, and the note says so. (What a
// device takes is shared among its parts by bytes, so attention's times say nothing of KV.) What
// one hop between the devices costs is in no snapshot and counts as nothing, as does idle KV until
// its session wakes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/spill_choice.hpp"
#include "policies/planner/intent.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct spill_wish {
  const device_state* from = nullptr;
  std::uint64_t needed_bytes = 0;           // that must leave
  std::vector<target_choice> to;            // the costs are those of the first
  ordering order = ordering::longest_idle;  // of sessions
  std::uint64_t keep_tokens = 0;
  std::string reason;
};

struct cheaper_spill {
  placement::spilled what = placement::spilled::nothing;
  std::vector<intent> wanted;        // in the order in which they are tried
  std::vector<std::uint64_t> bytes;  // that each of them frees
  std::string note;                  // a sentence: what was chosen and what either would cost
};

cheaper_spill spill_cheaper(const snapshot& now, const spill_wish& wish);

// Leaves as many from the front as are needed to reach the bytes.
void take_until(cheaper_spill& s, std::uint64_t bytes);

}  // namespace terrane::policies
