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

// A quantity in the unit's base (ratio 0..1, bytes, degrees Celsius, seconds, tokens, percent). The
// symbol may be left out where the bare number cannot mislead: "0.92", "8192", but not "92" for 92
// %.
parsed<double> parse_quantity(std::string_view text, unit u);
// A time with its unit, "5s", "2m", "1h", "500ms"; a bare number only when it is 0. Milliseconds.
parsed<std::int64_t> parse_duration_ms(std::string_view text);

// "92 %", "4.2 GiB", "85 C", "45 s", "8192 tokens".
std::string format_quantity(double value, unit u);
// "350 ms", "5 s", "2 min", "1.5 h".
std::string format_duration(std::int64_t ms);

}  // namespace terrane::policies
