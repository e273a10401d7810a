// The free ranges of an arena from which pieces are cut. A plain value, guarded by its owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace terrane::engine {

class gaps {
 public:
  explicit gaps(std::uint64_t bytes) : bytes_(bytes) { free_.emplace(0, bytes); }
  // All of it taken by one piece.
  static gaps none(std::uint64_t bytes);

  // The offset of a piece cut from the first gap that is large enough.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  // Gaps that touch become one.
  void give_back(std::uint64_t offset, std::uint64_t bytes);
  bool all_free() const { return free_.size() == 1 && free_.begin()->second == bytes_; }

 private:
  std::uint64_t bytes_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes, never two that touch
};

}  // namespace terrane::engine
