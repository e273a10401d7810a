#include "ipc/terranectl/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <set>

#include <boost/describe/enum_to_string.hpp>

namespace terrane::ipc::ctl {
namespace {

// "vulkan:0d1e2f30-…" → "vulkan:0d1e2f30"; PCI addresses and other short identities stay whole.
std::string cut_name(const std::string& name) {
  constexpr std::size_t longest_whole = 24;
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || name.size() <= longest_whole) {
    return name;
  }
  return name.substr(0, colon + 9);
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string ms_text(double milliseconds) {
  if (milliseconds >= 10'000) {
    return duration_text(milliseconds / 1000);
  }
  return decimal(milliseconds, milliseconds < 10 ? 2 : 0) + " ms";
}

std::string value_text(double value, unit u) {
  switch (u) {
    case unit::ratio:
      return decimal(100 * value, 1) + " %";
    case unit::bytes:
      return value < 0 ? "-" + value_text(-value, u) : bytes_text(std::llround(value));
    case unit::celsius:
      return decimal(value, 1) + " C";
    case unit::seconds:
      return duration_text(value);
    case unit::tokens:
      return decimal(value, 0);
    case unit::percent:
      return decimal(value, 1) + " %";
    case unit::watts:
      return decimal(value, 1) + " W";
    case unit::count:
      return decimal(value, 0);
    case unit::truth:
      return value != 0 ? "true" : "false";
    case unit::time_of_day: {
      const auto minutes = std::llround(std::floor(value / 60));
      return two_digits(minutes / 60) + ":" + two_digits(minutes % 60);
    }
    case unit::weekday: {
      constexpr std::array<const char*, 7> days = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
      return days[static_cast<std::size_t>(std::clamp(value, 1.0, 7.0)) - 1];
    }
  }
  return decimal(value, 3);
}

std::string clock_text(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000 - (unix_ms % 1000 < 0));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  const std::string thousandths = std::to_string((unix_ms % 1000 + 1000) % 1000);
  return text + std::string(".") + std::string(3 - thousandths.size(), '0') + thousandths;
}

std::string place_text(const std::string& file, std::int64_t line, std::int64_t column) {
  std::string text = file;
  if (line > 0) {
    text += ":" + std::to_string(line);
    if (column > 0) {
      text += ":" + std::to_string(column);
    }
  }
  return text;
}

std::string predictions_text(const std::vector<prediction_info>& all) {
  std::string text;
  std::int64_t moves = 0;
  for (const prediction_info& one : all) {
    std::string of = boost::describe::enum_to_string(one.of, "");
    std::ranges::replace(of, '_', ' ');
    text += (text.empty() ? "" : ", ") + of + " " + decimal(one.median_ratio, 2);
    moves = std::max(moves, one.moves);
  }
  return text + " (measured over predicted, " + std::to_string(moves) +
         (moves == 1 ? " move)" : " moves)");
}

std::string until_text(std::optional<std::int64_t> until_unix_ms) {
  if (!until_unix_ms) {
    return "until someone ends that";
  }
  const std::string clock = clock_text(*until_unix_ms);
  return "until " + clock.substr(0, clock.find('.'));
}

std::string yield_text(const yield_info& order, std::int64_t now_unix_ms) {
  std::string text = until_text(order.until_unix_ms);
  if (order.until_unix_ms) {
    // Apart, since what a server says may be any number.
    const double until_s = static_cast<double>(*order.until_unix_ms) / 1000;
    text += " (another " + duration_text(until_s - static_cast<double>(now_unix_ms) / 1000) + ")";
  }
  return text + ", asked for by " + order.by;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) {
    return std::string(text);
  }
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++end) {
    if (!continues_character(text[end]) && ++characters >= width) {
      break;
    }
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string printable(std::string_view text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // The C1 controls are two bytes in UTF-8: C2 80 to C2 9F.
    const bool second =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (second) {
      ++i;
    }
    if (second || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      clean += "\xEF\xBF\xBD";  // U+FFFD, the replacement character
    } else {
      clean += text[i];
    }
  }
  return clean;
}

device_names::device_names(std::vector<std::string> all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::set<std::string> brief_names;
  bool shorter = false;
  for (const std::string& name : all) {
    brief_names.insert(cut_name(name));
    shorter = shorter || cut_name(name) != name;
  }
  cut_ = shorter && brief_names.size() == all.size();
}

std::string device_names::brief(const std::string& name) const {
  return cut_ ? cut_name(name) : name;
}

std::string resolve_device(const std::string& text, const std::vector<std::string>& known) {
  const std::string* only = nullptr;
  for (const std::string& name : known) {
    if (name == text) {
      return text;
    }
    if (name.starts_with(text)) {
      if (only != nullptr) {
        return text;
      }
      only = &name;
    }
  }
  return only == nullptr ? text : *only;
}

}  // namespace terrane::ipc::ctl
