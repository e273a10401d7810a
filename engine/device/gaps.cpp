#include "engine/device/gaps.hpp"

#include <iterator>

namespace terrane::engine {

gaps gaps::none(std::uint64_t bytes) {
  gaps made(bytes);
  made.free_.clear();
  return made;
}

std::optional<std::uint64_t> gaps::take(std::uint64_t bytes) {
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    auto [offset, size] = *gap;
    if (size < bytes) continue;
    free_.erase(gap);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    return offset;
  }
  return std::nullopt;
}

void gaps::give_back(std::uint64_t offset, std::uint64_t bytes) {
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace terrane::engine
