#include "policies/vocabulary/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "policies/vocabulary/metric_value.hpp"

namespace terrane::policies {
namespace {

// Longer than this and a time is a mistake; it also keeps milliseconds far from overflow.
constexpr double longest_s = 366.0 * 24 * 3600;
// More bytes than any machine has, and still exact in a double.
constexpr double most = 9007199254740992.0;  // 2^53

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string symbols_of(unit u) {
  std::string list;
  for (const unit_entry& e : units()) {
    if (e.measured_in == u) list += (list.empty() ? "" : ", ") + std::string(e.symbol);
  }
  return list;
}

std::string_view example_of(unit u) {
  switch (u) {
    case unit::ratio:
      return "92%";
    case unit::bytes:
      return "4GiB";
    case unit::celsius:
      return "85C";
    case unit::seconds:
      return "45s";
    case unit::tokens:
      return "8192";
    case unit::percent:
      return "10%";
    case unit::watts:
      return "250W";
    case unit::count:
      return "8";
    case unit::truth:
      return "true";
    case unit::time_of_day:
      return "22:00";
    case unit::weekday:
      return "Mon";
  }
  return "";
}

constexpr std::array<std::string_view, 7> days = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

parsed<double> parse_truth(std::string_view text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  return tl::unexpected("'" + std::string(text) + "' is neither true nor false");
}

parsed<double> parse_day(std::string_view text) {
  const auto at = std::ranges::find(days, text);
  if (at != days.end()) return static_cast<double>(at - days.begin() + 1);
  return tl::unexpected("'" + std::string(text) + "' is no day: Mon, Tue, Wed, Thu, Fri, Sat, Sun");
}

// Two digits, at most `limit`; -1 when the text begins otherwise.
int two_digits(std::string_view text, int limit) {
  const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (text.size() < 2 || !digit(0) || !digit(1)) return -1;
  const int value = (text[0] - '0') * 10 + (text[1] - '0');
  return value <= limit ? value : -1;
}

parsed<double> parse_time_of_day(std::string_view text) {
  const int hour = two_digits(text, 23);
  const bool has_minute = text.size() == 5 && text[2] == ':';
  const int minute = has_minute ? two_digits(text.substr(3), 59) : -1;
  if (hour >= 0 && minute >= 0) return hour * 3600.0 + minute * 60.0;
  return tl::unexpected("'" + std::string(text) + "' is no time of day such as 22:00 or 07:30");
}

std::string format_time_of_day(double seconds) {
  const int minutes = static_cast<int>(std::clamp(seconds, 0.0, 86'399.0)) / 60;
  const auto two = [](int n) { return std::string{char('0' + n / 10), char('0' + n % 10)}; };
  return two(minutes / 60) + ":" + two(minutes % 60);
}

std::string format_day(double day) {
  return std::string(days[static_cast<std::size_t>(std::clamp(day, 1.0, 7.0)) - 1]);
}

std::string expected_clause(std::string_view text, unit u) {
  const std::string symbols = symbols_of(u);
  if (symbols.empty()) {
    return "'" + std::string(text) + "' is no number such as " + std::string(example_of(u));
  }
  return "'" + std::string(text) + "' is not a quantity such as " + std::string(example_of(u)) +
         " (units: " + symbols + ")";
}

struct number_and_symbol {
  double number;
  std::string_view symbol;
};

parsed<number_and_symbol> split(std::string_view text, unit u) {
  const std::string_view body = trimmed(text);
  double number = 0;
  const auto [end, fault] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (fault != std::errc{} || !std::isfinite(number)) {
    return tl::unexpected(expected_clause(text, u));
  }
  if (number < 0) {
    return tl::unexpected("'" + std::string(text) + "' is below 0, which nothing here can be");
  }
  if (number > most) {
    return tl::unexpected("'" + std::string(text) + "' is out of range; 2^53 is the most");
  }
  const std::size_t used = static_cast<std::size_t>(end - body.data());
  return number_and_symbol{number, trimmed(body.substr(used))};
}

std::string with_digits(double value, const char* symbol) {
  std::array<char, 64> text;
  const char* format = value == std::floor(value) || value >= 100 ? "%.0f%s" : "%.1f%s";
  std::snprintf(text.data(), text.size(), format, value, symbol);
  return text.data();
}

// A number with or without its unit's symbol. `most_of_whole`: what a share may be, with its
// symbol.
parsed<double> parse_number(std::string_view text, unit u, double most_of_whole) {
  const parsed<number_and_symbol> parts = split(text, u);
  if (!parts) return tl::unexpected(parts.error());
  if (parts->symbol.empty()) {
    if (u == unit::ratio && parts->number > 1) {
      const std::string number(trimmed(text));
      if (most_of_whole > 1)
        return tl::unexpected("'" + number + "' needs its sign: " + number + "%, or " +
                              with_digits(100 * parts->number, "%"));
      return tl::unexpected("'" + number + "' is more than the whole; did you mean " + number +
                            "%?");
    }
    return parts->number;
  }
  for (const unit_entry& e : units()) {
    if (e.measured_in != u || e.symbol != parts->symbol) continue;
    const double value = parts->number * e.factor;
    if (u == unit::ratio && value > most_of_whole) {
      return tl::unexpected("'" + std::string(text) + "' is more than the whole");
    }
    if (value > most) return tl::unexpected("'" + std::string(text) + "' is out of range");
    return value;
  }
  return tl::unexpected(expected_clause(text, u));
}

}  // namespace

std::string format_bytes(double bytes) {
  const double size = std::fabs(bytes);
  constexpr double kib = 1024;
  if (size >= kib * kib * kib) return with_digits(bytes / (kib * kib * kib), " GiB");
  if (size >= kib * kib) return with_digits(bytes / (kib * kib), " MiB");
  if (size >= kib) return with_digits(bytes / kib, " KiB");
  return with_digits(bytes, " B");
}

parsed<double> parse_quantity(std::string_view text, unit u) {
  if (u == unit::truth) return parse_truth(trimmed(text));
  if (u == unit::time_of_day) return parse_time_of_day(trimmed(text));
  if (u == unit::weekday) return parse_day(trimmed(text));
  return parse_number(text, u, 1);
}

parsed<double> parse_value(std::string_view text, const metric_entry& m) {
  if (m.measured_in == unit::ratio) return parse_number(text, unit::ratio, m.most.value_or(1));
  return parse_quantity(text, m.measured_in);
}

parsed<quantity_range> parse_range(std::string_view text, unit u) {
  const std::string_view body = trimmed(text);
  const std::size_t dash = body.find('-');
  const bool whole = dash == std::string_view::npos;
  if (whole && u != unit::weekday) {
    return tl::unexpected("'" + std::string(text) + "' is no range such as 22:00-07:00");
  }
  const parsed<double> from = parse_quantity(body.substr(0, dash), u);
  const parsed<double> to = whole ? from : parse_quantity(body.substr(dash + 1), u);
  if (!from) return tl::unexpected(from.error());
  if (!to) return tl::unexpected(to.error());
  if (u == unit::time_of_day && *from == *to) {
    return tl::unexpected("'" + std::string(text) + "' begins and ends at the same time");
  }
  return quantity_range{*from, *to};
}

parsed<std::int64_t> parse_duration_ms(std::string_view text) {
  const parsed<number_and_symbol> parts = split(text, unit::seconds);
  if (!parts) return tl::unexpected(parts.error());
  if (parts->symbol.empty() && parts->number != 0) {
    const std::string number(trimmed(text));
    return tl::unexpected("'" + number + "' has no unit; did you mean " + number + "s?");
  }
  const parsed<double> seconds = parse_quantity(text, unit::seconds);
  if (!seconds) return tl::unexpected(seconds.error());
  if (*seconds > longest_s) {
    return tl::unexpected("'" + std::string(text) + "' is longer than a year");
  }
  return static_cast<std::int64_t>(std::llround(*seconds * 1000));
}

std::string format_quantity(double value, unit u) {
  switch (u) {
    case unit::ratio:
      return with_digits(std::round(value * 1000) / 10, " %");
    case unit::bytes:
      return format_bytes(value);
    case unit::celsius:
      return with_digits(value, " C");
    case unit::seconds:
      return with_digits(value, " s");
    case unit::tokens:
      return with_digits(value, " tokens");
    case unit::percent:
      return with_digits(value, " %");
    case unit::watts:
      return with_digits(value, " W");
    case unit::count:
      return with_digits(value, "");
    case unit::truth:
      return value != 0 ? "true" : "false";
    case unit::time_of_day:
      return format_time_of_day(value);
    case unit::weekday:
      return format_day(value);
  }
  return {};
}

std::string format_duration(std::int64_t ms) {
  const double seconds = static_cast<double>(ms) / 1000;
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (seconds < 120) return with_digits(seconds, " s");
  if (seconds < 7200) return with_digits(seconds / 60, " min");
  return with_digits(seconds / 3600, " h");
}

}  // namespace terrane::policies
