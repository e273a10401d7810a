#include "policies/explain/forecasts.hpp"

#include <algorithm>
#include <vector>

namespace terrane::policies {
namespace {

constexpr std::size_t most_kept = 256;

}  // namespace

std::string_view to_string(forecast f) {
  switch (f) {
    case forecast::bytes:
      return "bytes";
    case forecast::time:
      return "time";
    case forecast::pause:
      return "pause";
    case forecast::token_time:
      return "token time";
  }
  return "unknown";
}

void forecasts::add(forecast f, double predicted, double happened) {
  if (!(predicted > 0) || !(happened > 0)) return;
  std::deque<double>& ratios = ratios_[static_cast<std::size_t>(f)];
  ratios.push_back(happened / predicted);
  if (ratios.size() > most_kept) ratios.pop_front();
}

std::optional<forecast_quality> forecasts::quality_of(forecast f) const {
  const std::deque<double>& ratios = ratios_[static_cast<std::size_t>(f)];
  if (ratios.empty()) return std::nullopt;
  std::vector<double> sorted(ratios.begin(), ratios.end());
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  const double median =
      sorted.size() % 2 != 0 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return forecast_quality{sorted.size(), median};
}

}  // namespace terrane::policies
