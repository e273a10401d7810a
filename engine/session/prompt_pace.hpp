// How many rows a step has beside replies that are being given. Where a device is slow a full step
// of a prompt takes seconds, and everybody who reads a reply would wait as long for its next word;
// so it is cut down until a step takes no longer than a few tokens do. Without such replies prompts
// are read as fast as they can be. How a prompt is cut changes no bit of what comes of it.
//
// Belongs to the step loop's thread, and to one placement.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

namespace terrane::engine {

class prompt_pace {
 public:
  // `most`: rows of a step. It begins with few, since on a slow device the first step may already
  // be too long; on a fast one they double with each step.
  explicit prompt_pace(std::uint32_t most) : most_(most), rows_(std::min(least_rows, most)) {}

  // Rows of prompts that the next step may have beside so many of replies, one a session. A step
  // computes a power of two of rows, so together they fill one; prompts have half of it at least.
  // The first step has none: how long a token takes is not known else, and as long as prompts come
  // no other step would tell.
  std::uint32_t rows_beside(std::uint32_t reply_rows) const {
    if (!token_ms_) return 0;
    const std::uint32_t half = rows_ / 2;
    const std::uint32_t whole = reply_rows <= half ? rows_ : std::bit_ceil(reply_rows + half);
    return std::min(whole, most_) - std::min(reply_rows, most_);
  }

  // What a step took.
  void took(std::uint32_t prompt_rows, std::uint32_t reply_rows, double ms) {
    if (reply_rows == 0) return;
    if (prompt_rows == 0) {
      token_ms_ = token_ms_ ? 0.9 * *token_ms_ + 0.1 * ms : ms;
      return;
    }
    token_ms_ = std::min(token_ms_.value_or(ms), ms);  // a token alone takes no longer
    const std::uint32_t rows = prompt_rows + reply_rows;
    const double allowed = std::max(unnoticed_ms, tokens_long * *token_ms_);
    if (ms > allowed) {
      const auto fitting = static_cast<std::uint32_t>(rows * allowed / ms);
      rows_ = std::max(std::min(least_rows, most_), std::bit_floor(std::min(fitting, rows_)));
    } else if (2 * ms <= allowed && rows >= rows_) {  // twice the rows take no more
      rows_ = std::min(most_, 2 * rows_);
    }
  }

 private:
  // With fewer a step reads the weights for next to nothing.
  static constexpr std::uint32_t least_rows = 8;
  static constexpr double unnoticed_ms = 150, tokens_long = 3;

  std::uint32_t most_, rows_;
  std::optional<double> token_ms_;  // a step of replies alone, of late
};

}  // namespace terrane::engine
