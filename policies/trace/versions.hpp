// Versions of what is recorded and kept, and the one table of what was added since the first: a
// file of an earlier version lacks these fields, and each then has the value that stands here. A
// file of a later version than this program's is refused by its version. Constants; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace terrane::policies::trace {

inline constexpr int version = 5;

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
inline constexpr added_field<std::uint64_t> scratch_bytes{3, "scratch_bytes", 0};
inline constexpr added_field<double> hop_ms{3, "hop_ms", 0};
inline constexpr added_field<std::uint32_t> rank{3, "rank", 0};

// Of parts.
inline constexpr added_field<std::uint64_t> kv_most_bytes{3, "kv_most_bytes", 0};
inline constexpr added_field<std::int32_t> shared{3, "shared", -1};
inline constexpr added_field<std::uint64_t> shared_bytes{3, "shared_bytes", 0};
inline constexpr added_field<bool> placed_by_user{4, "placed_by_user", false};

inline constexpr added_field<std::uint64_t> kv_blank_bytes{5, "kv_blank_bytes", 0};

// Of the model.
inline constexpr added_field<std::uint64_t> page_tokens{5, "page_tokens", 0};

// Of KV on a device. All of it was taken to be full.
inline constexpr added_field<std::uint64_t> open_bytes{5, "open_bytes", 0};
inline constexpr added_field<std::uint64_t> empty_bytes{5, "empty_bytes", 0};
inline constexpr added_field<std::uint64_t> past_bytes{5, "past_bytes", 0};
inline constexpr added_field<std::int64_t> away_bytes{5, "away_bytes", -1};

// Of planned moves.
inline constexpr added_field<double> predicted_token_ms{3, "predicted_token_ms", 0};
inline constexpr added_field<std::uint64_t> copied_bytes{5, "copied_bytes", 0};
inline constexpr added_field<std::string_view> only_from{5, "only_from", ""};

// Of latches.
inline constexpr added_field<bool> moved_something{5, "moved_something", true};
inline constexpr added_field<bool> trifle{5, "trifle", false};
inline constexpr added_field<std::uint64_t> told{5, "told", 0};

// Of moves that failed.
inline constexpr added_field<bool> was_idle{5, "was_idle", false};

// Sections of a snapshot that are in no line are as they are made: nothing was promoted.

}  // namespace added

}  // namespace terrane::policies::trace
