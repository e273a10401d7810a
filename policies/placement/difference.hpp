// What is between two placements: which parts would move, how many bytes, what a token takes before
// and after, and the safe sequence that gets from one to the other. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/placement/prediction.hpp"
#include "policies/placement/sequence.hpp"

namespace terrane::policies::placement {

struct difference {
  std::vector<step_move> moves;  // straight: from where a part is to where it is to be
  std::uint64_t bytes = 0;
  prediction before, after;
  std::optional<move_sequence> sequence;
  std::string why_no_sequence;  // of moves, where there is none

  double gain_s() const { return before.token_s - after.token_s; }
};

// By part, of those that go from one placement to another: whether it brings what it shares, since
// no part has that there yet, nor does one before it bring it.
std::vector<bool> brings_shared(const request& r, const placed& from, const placed& to);

difference compare(const request& r, const standing& now, const placed& target);

// Tokens after which what they gain is as much as the copies cost; infinite without a gain.
double pays_after_tokens(const difference& d);

// For people, a line a fact; runs of layers are one line. Times of 0 are not known, and not told.
std::string to_text(const request& r, const difference& d);
// {"moves": [{"part","from","to","bytes"}], "bytes", "token_ms_before", "token_ms_after",
// "move_ms", "steps": [[{"part","from","to","bytes","aside"}]], "blocked"}
std::string to_json(const request& r, const difference& d);

}  // namespace terrane::policies::placement
