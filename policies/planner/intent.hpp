// What a policy wants before anyone has checked whether it can be: candidates in order, how far to
// go, and why. YAML actions and Lua plans both end here. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/rule/rule.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

struct intent {
  verb action = verb::move;  // move, spill or fetch
  subject_kind kind = subject_kind::part;
  std::string subject;
  std::vector<target_choice> to;  // in order of preference; a fetch without any goes home
  std::uint64_t keep_tokens = 0;
  std::string only_from;  // KV: only what lives on this device; empty: wherever it is
  std::string reason;
};

struct proposal {
  std::vector<intent> wanted;               // in the order in which they are tried
  std::optional<std::uint64_t> goal_bytes;  // enough once candidates of this size are taken
  bool fills = false;                       // the goal is a limit: what would pass it is left
  bool best_first = false;                  // sorted by score; else in the order of `wanted`
  std::string yield_reason;  // not empty: all that is on the object's device leaves it
  bool restore = false;      // let go of everything held for the object
  std::string restore_reason;
  std::vector<std::string> notes;  // declines: whole sentences
};

}  // namespace terrane::policies
