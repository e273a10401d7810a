// What a token takes longer for each position that it looks back on, found by watching one reply
// after the other get longer while nothing else changes: the slope of a line through what tokens
// took at which length (least squares), old ones counting for less. What does not grow, the
// weights, is where the line begins. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace terrane::daemon {

class growing_context {
 public:
  // Tokens, all about that long, took so many milliseconds each in that placement. In another one
  // (by part) the line begins anew: a device reads other weights then.
  void add(const std::vector<std::uint32_t>& placement, double positions, double ms, double tokens,
           std::int64_t now_ms);

  // None while lengths were too much alike, or what is found drowns in what scatters about it.
  std::optional<double> ms_per_position() const;

 private:
  std::vector<std::uint32_t> placement_;
  std::int64_t at_ms_ = 0;
  std::uint32_t looks_ = 0;
  // Sums over tokens, x: positions, y: milliseconds.
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0, yy_ = 0;
};

}  // namespace terrane::daemon
