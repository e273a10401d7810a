// How many rows a step has beside replies that are being given. Where a device is slow a full step
// of a prompt takes seconds, and everybody who reads a reply would wait as long for its next word;
// so it is cut down until a step takes no longer than a few tokens do. Without such replies prompts
// are read as fast as they can be, in steps of which none takes long: between two of them moves
// commit, and who comes next gets a first token. How a prompt is cut changes no bit of what comes
// of it.
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
  // `most`: rows of a step. Beside replies it begins with few, since on a slow device the first
  // step may already be too long; on a fast one they double with each step. Without replies it
  // begins with `alone`, which are taken however long they take.
  explicit prompt_pace(std::uint32_t most, std::uint32_t alone = usual_alone)
      : most_(most),
        rows_(std::min(least_rows, most)),
        least_alone_(std::min(alone, most)),
        alone_(least_alone_) {}

  // Rows of prompts that the next step may have where no reply is given.
  std::uint32_t rows_alone() const { return alone_; }

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
    if (reply_rows == 0) return took_alone(prompt_rows, ms);
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
  static constexpr std::uint32_t usual_alone = 64;
  static constexpr double alone_ms = 250;

  // A whole step tells how many rows take alone_ms at most. One that took less than twice as long
  // is no reason to take fewer: a longer context slows it down, and so does what runs beside it.
  void took_alone(std::uint32_t rows, double ms) {
    const auto fitting = static_cast<std::uint32_t>(
        std::clamp<double>(rows * alone_ms / std::max(ms, 1e-3), 1, most_));
    const std::uint32_t next = fitting == most_ ? most_ : std::bit_floor(fitting);
    if (rows >= alone_ && next > alone_)
      alone_ = next;
    else if (ms > 2 * alone_ms)
      alone_ = std::min(alone_, std::max(next, least_alone_));
  }

  std::uint32_t most_, rows_, least_alone_, alone_;
  std::optional<double> token_ms_;  // a step of replies alone, of late
};

}  // namespace terrane::engine
