// What replies lose while a move is prepared beside them: how much longer than usual devices take
// for a token, so that copying can rest in between. What else a token may wait for, who reads it
// for one, is not the copies' doing and does not count.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace terrane::engine {

class token_delay {
 public:
  // A step that gave each of so many replies a token took the devices `ms`.
  void token(std::uint32_t replies, double ms) {
    if (replies != replies_) {  // what is usual is not known any more
      taken_ = 0;
      usual_ms_.reset();
    }
    replies_ = replies;
    if (!watching_)
      kept_[taken_++ % kept_.size()] = ms;
    else if (usual_ms_)
      lost_ms_ += ms - *usual_ms_;
  }

  // From here on tokens are compared with the median of the latest, until ignore().
  void watch() {
    watching_ = true;
    lost_ms_ = 0;
    usual_ms_.reset();
    const std::size_t count = std::min(taken_, kept_.size());
    if (count < fewest) return;
    std::array<double, kept> sorted = kept_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
    usual_ms_ = *middle;
  }
  void ignore() { watching_ = false; }

  // Since watch(), in milliseconds; 0 where no replies went on as before.
  double lost_ms() const { return std::max(lost_ms_, 0.0); }

 private:
  static constexpr std::size_t kept = 16, fewest = 4;

  std::array<double, kept> kept_{};
  std::size_t taken_ = 0;
  std::uint32_t replies_ = 0;
  bool watching_ = false;
  std::optional<double> usual_ms_;
  double lost_ms_ = 0;
};

// How long copying is to rest, `elapsed_ms` after it began, of which it has rested `rested_ms`:
// until what replies have lost is a small share of the time, but at most for twice as long as it
// has worked.
inline double rest_ms(double elapsed_ms, double lost_ms, double rested_ms) {
  constexpr double share = 0.06;
  const double most = 2 * (elapsed_ms - rested_ms) - rested_ms;
  return std::max(0.0, std::min(lost_ms / share - elapsed_ms, most));
}

}  // namespace terrane::engine
