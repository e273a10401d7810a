#include "daemon/loop/growing_context.hpp"

#include <cmath>

namespace terrane::daemon {
namespace {

constexpr double half_life_ms = 10 * 60'000;
constexpr std::uint32_t least_looks = 8;
// Lengths must differ by so much, as a standard deviation.
constexpr double least_positions = 32;
// And the slope be so many times its own standard error.
constexpr double least_certainty = 4;

}  // namespace

void growing_context::add(const std::vector<std::uint32_t>& placement, double positions, double ms,
                          double tokens, std::int64_t now_ms) {
  if (placement != placement_) *this = {};
  placement_ = placement;
  const double kept = std::exp2(-static_cast<double>(now_ms - at_ms_) / half_life_ms);
  at_ms_ = now_ms;
  looks_++;
  const auto sum = [&](double& all, double more) { all = all * kept + tokens * more; };
  sum(n_, 1);
  sum(x_, positions);
  sum(y_, ms);
  sum(xx_, positions * positions);
  sum(xy_, positions * ms);
  sum(yy_, ms * ms);
}

std::optional<double> growing_context::ms_per_position() const {
  if (looks_ < least_looks || n_ <= 0) return std::nullopt;
  const double spread = xx_ / n_ - x_ / n_ * (x_ / n_);
  if (spread < least_positions * least_positions) return std::nullopt;
  const double slope = (xy_ / n_ - x_ / n_ * (y_ / n_)) / spread;
  const double rest = std::fmax(0, yy_ / n_ - y_ / n_ * (y_ / n_) - slope * slope * spread);
  // Tokens of one look are no independent witnesses; looks are.
  const double error = std::sqrt(rest / spread / looks_);
  if (!(slope > 0) || slope < least_certainty * error) return std::nullopt;
  return slope;
}

}  // namespace terrane::daemon
