// Amounts as people read them, in messages and tables. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace terrane::ipc {

std::string decimal(double value, int places);  // "12.5"
std::string two_digits(long value);             // "05"
std::string bytes_text(std::int64_t bytes);     // "1.5 GiB"
std::string duration_text(double seconds);      // "2h 05m", "3.5 s"

}  // namespace terrane::ipc
