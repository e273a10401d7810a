// Numbers with units, as policy files write them and as people read them: "92%", "4GiB", "85C",
// "5s". The symbols are the vocabulary table's. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// The error is a clause: what the text is and what was expected.
template <class T>
using parsed = tl::expected<T, std::string>;

// A quantity in the unit's base (ratio 0..1, bytes, degrees Celsius, seconds, tokens, percent,
// watts, true as 1, seconds since midnight, days from 1). The symbol may be left out where the bare
// number cannot mislead: "0.92", "8192", but not "92" for 92 %.
parsed<double> parse_quantity(std::string_view text, unit u);
// A range of times of day, "22:00-07:00", or of days, "Sat-Sun" or "Sun"; it may pass midnight or
// Sunday. Days are whole ones, both ends included; a time ends before its second.
struct quantity_range {
  double from = 0;
  double to = 0;
};
parsed<quantity_range> parse_range(std::string_view text, unit u);
// A time with its unit, "5s", "2m", "1h", "500ms"; a bare number only when it is 0. Milliseconds.
parsed<std::int64_t> parse_duration_ms(std::string_view text);

// "92 %", "4.2 GiB", "85 C", "45 s", "8192 tokens", "250 W", "true", "22:00", "Mon".
std::string format_quantity(double value, unit u);
// "350 ms", "5 s", "2 min", "1.5 h".
std::string format_duration(std::int64_t ms);
std::string format_bytes(double bytes);

}  // namespace terrane::policies
