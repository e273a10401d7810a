// Versions of what is recorded and kept, and the one table of what was added since the first: a
// file of an earlier version lacks these fields, and each then has the value that stands here. A
// file of a later version than this program's is refused by its version. Constants; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace terrane::policies::trace {

inline constexpr int version = 2;

template <class T>
struct added_field {
  int since;  // the first version that has it
  std::string_view name;
  T otherwise;  // its value in files of before
};

namespace added {

// Of devices. Nothing was known of what they share but a card.
inline constexpr added_field<bool> host_memory{2, "host_memory", false};
inline constexpr added_field<std::uint64_t> memory_bytes{2, "memory_bytes", 0};
inline constexpr added_field<double> kv_bytes_per_s{2, "kv_bytes_per_s", 0};

}  // namespace added

}  // namespace terrane::policies::trace
