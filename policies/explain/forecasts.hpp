// How good predictions were: what was predicted of moves beside what then happened. Kept by the
// daemon for as long as it runs; bounded. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>

namespace terrane::policies {

enum class forecast { bytes, time, pause, token_time };
inline constexpr std::array<forecast, 4> all_forecasts = {forecast::bytes, forecast::time,
                                                          forecast::pause, forecast::token_time};
std::string_view to_string(forecast f);

struct forecast_quality {
  std::size_t count = 0;    // of the last ones that are kept
  double median_ratio = 0;  // what happened over what was predicted: 1 is right
};

class forecasts {
 public:
  // Nothing where one of the two is not known (0 or less).
  void add(forecast f, double predicted, double happened);
  // Nothing where none was compared yet.
  std::optional<forecast_quality> quality_of(forecast f) const;

 private:
  std::array<std::deque<double>, all_forecasts.size()> ratios_;
};

}  // namespace terrane::policies
