#include "ipc/control/amount_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace terrane::ipc {

std::string two_digits(long value) { return (value < 10 ? "0" : "") + std::to_string(value); }

std::string decimal(double value, int places) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", places, value);
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return std::to_string(bytes) + " B";
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return decimal(value, 1) + " " + units[unit];
}

std::string duration_text(double seconds) {
  if (!(seconds >= 60)) {
    return decimal(seconds > 0 ? seconds : 0, 1) + " s";
  }
  seconds = std::min(seconds, 1e12);  // whatever is longer is as good as that, and no whole number
  const long minutes = static_cast<long>(seconds) / 60;
  if (minutes < 60) {
    return std::to_string(minutes) + "m " + two_digits(static_cast<long>(seconds) % 60) + "s";
  }
  if (minutes < 48 * 60) {
    return std::to_string(minutes / 60) + "h " + two_digits(minutes % 60) + "m";
  }
  return std::to_string(minutes / (24 * 60)) + " days";
}

}  // namespace terrane::ipc
