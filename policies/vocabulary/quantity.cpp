#include "policies/vocabulary/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

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
  }
  return "";
}

std::string expected_clause(std::string_view text, unit u) {
  return "'" + std::string(text) + "' is not a quantity such as " + std::string(example_of(u)) +
         " (units: " + symbols_of(u) + ")";
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
  if (number < 0 || number > most) {
    return tl::unexpected("'" + std::string(text) + "' is out of range (0 to 2^53)");
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

std::string format_bytes(double bytes) {
  const double size = std::fabs(bytes);
  constexpr double kib = 1024;
  if (size >= kib * kib * kib) return with_digits(bytes / (kib * kib * kib), " GiB");
  if (size >= kib * kib) return with_digits(bytes / (kib * kib), " MiB");
  if (size >= kib) return with_digits(bytes / kib, " KiB");
  return with_digits(bytes, " B");
}

}  // namespace

parsed<double> parse_quantity(std::string_view text, unit u) {
  const parsed<number_and_symbol> parts = split(text, u);
  if (!parts) return tl::unexpected(parts.error());
  if (parts->symbol.empty()) {
    if (u == unit::ratio && parts->number > 1) {
      const std::string number(trimmed(text));
      return tl::unexpected("'" + number + "' is more than the whole; did you mean " + number +
                            "%?");
    }
    return parts->number;
  }
  for (const unit_entry& e : units()) {
    if (e.measured_in != u || e.symbol != parts->symbol) continue;
    const double value = parts->number * e.factor;
    if (u == unit::ratio && value > 1) {
      return tl::unexpected("'" + std::string(text) + "' is more than the whole");
    }
    if (value > most) return tl::unexpected("'" + std::string(text) + "' is out of range");
    return value;
  }
  return tl::unexpected(expected_clause(text, u));
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
