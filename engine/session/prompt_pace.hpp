// How much of prompts a step reads beside replies that are being given. Where a device is slow a
// full step of a prompt takes seconds, and everybody who reads a reply would wait as long for its
// next word; so it is cut down until a step takes no longer than a few tokens do. Without such
// replies prompts are read as fast as they can be. How a prompt is cut changes no bit of what comes
// of it.
//
// Belongs to the step loop's thread, and to one placement.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace terrane::engine {

class prompt_pace {
 public:
  // `most`: rows of a step. It begins with few, since on a slow device the first step may already
  // be too long; a fast one has whole steps after three.
  explicit prompt_pace(std::uint32_t most) : most_(most), rows_(std::min(least_rows, most)) {}

  // Rows of prompts that the next step may have, if it has rows of replies too.
  std::uint32_t rows_beside_replies() const { return rows_; }

  // What a step took. Rows of replies are one a session.
  void took(std::uint32_t prompt_rows, std::uint32_t reply_rows, double ms) {
    if (reply_rows == 0) return;
    if (prompt_rows == 0) {
      token_ms_ = token_ms_ == 0 ? ms : 0.9 * token_ms_ + 0.1 * ms;
      return;
    }
    const double allowed = std::max(unnoticed_ms, tokens_long * token_ms_);
    if (ms > allowed) {
      const auto fitting = static_cast<std::uint32_t>(prompt_rows * allowed / ms);
      rows_ = std::max(least_rows, std::bit_floor(std::min(fitting, rows_)));
    } else if (2 * ms <= allowed && prompt_rows >= rows_) {  // twice the rows take no more
      rows_ = std::min(most_, 2 * rows_);
    }
  }

 private:
  // With fewer a step reads the weights for next to nothing.
  static constexpr std::uint32_t least_rows = 8;
  static constexpr double unnoticed_ms = 150, tokens_long = 3;

  std::uint32_t most_, rows_;
  double token_ms_ = 0;  // a step of replies alone, of late
};

}  // namespace terrane::engine
