// What of a session's KV an intent moves. Pages that are not full, reserved ones among them, stay
// beside their parts, and so does the KV of the newest tokens that are to be kept. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "policies/explain/record.hpp"
#include "policies/planner/intent.hpp"
#include "policies/vocabulary/saturating.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct kv_amount {
  std::uint64_t bytes = 0;
  std::uint64_t copied_bytes = 0;  // of these, what travels
};

// What a spill or fetch to `to` moves; `to` empty: were nothing there yet.
kv_amount kv_to_move(const snapshot& now, const session_state& s, const intent& i,
                     const std::string& to);

// Writes that to a candidate.
void count_kv(const kv_amount& amount, candidate& c);

// The device that holds most of the KV that the intent takes to `to`; empty: none holds any.
std::string main_device(const session_state& s, const intent& i, const std::string& to);

// Of a session's KV, what a spill leaves because its pages are not full.
std::uint64_t unfinished_bytes(const session_state& s, const intent& i);

// The bytes of full pages: others stay beside their parts.
inline std::uint64_t full_bytes(const kv_residency& r) {
  return subtract_saturating(r.bytes, r.open_bytes);
}

// What is not beside the parts that use it.
inline std::uint64_t away_bytes(const kv_residency& r) {
  return r.away_bytes < 0 ? 0 : static_cast<std::uint64_t>(r.away_bytes);
}

}  // namespace terrane::policies
