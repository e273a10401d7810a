// Whether a move is worth making, from what has been measured: what it costs, what a token gains,
// how long it is expected to last, and whether it relieves what its policy is about. What has not
// been measured decides nothing. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policies/explain/record.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// A session that has given no token for so long computes nothing.
inline constexpr double computing_s = 10;

// Less than a sixteenth of what is wanted is no help.
constexpr bool is_next_to_nothing(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes < wanted / 16;
}

// What of a move can be said in numbers. `stay_ms`: how long it would last; none when unknown. The
// relief is counted for a device; null when the policy relieves none.
candidate_score score_of(const candidate& c, const snapshot& now, const device_state* relieved,
                         std::optional<std::int64_t> stay_ms);

// Whether all that the rule relieves is memory.
bool is_short_of_memory(const rule& r);

// Why moving the candidate relieves nothing that the rule is about on that device; empty when it
// does, or when nothing is known of what it relieves.
std::string why_no_help(const candidate& c, const snapshot& now, const rule& r,
                        const device_state& relieved);

// Why the move gains less over its stay than it costs; empty when it does not, or when one of cost,
// gain, stay and the speed of replies has not been measured.
std::string why_not_worth(const candidate_score& s, const snapshot& now);

}  // namespace terrane::policies
