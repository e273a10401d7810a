#include "engine/device/cpu/fetch_plan.hpp"

#include <algorithm>

#include <unistd.h>

namespace terrane::engine {

namespace {

// The matrix that groups [first, end), counted in the phase's order, read first, from their first
// part on.
fetch_ahead first_read(const dispatch& d, std::uint32_t first, std::uint32_t end,
                       std::size_t most_bytes) {
  std::uint64_t parts = 0;
  for (const read_in_order& m : d.matrices) parts += m.parts;
  const std::uint64_t parts_of_group = (parts + d.groups_x - 1) / d.groups_x;
  const bool x_first = d.order == group_order::x_first;
  const std::uint64_t x = x_first ? first % d.groups_x : first / d.groups_y;
  const std::uint64_t count = x_first ? end - first : (end - first + d.groups_y - 1) / d.groups_y;
  std::uint64_t part = x * parts_of_group;
  for (const read_in_order& m : d.matrices) {
    if (part >= m.parts) {
      part -= m.parts;
      continue;
    }
    const std::uint64_t read = std::min(count * parts_of_group, m.parts - part);
    const std::uint64_t part_bytes = m.bytes / m.parts;
    return {reinterpret_cast<const std::byte*>(m.address + part * part_bytes),
            std::min<std::size_t>(read * part_bytes, most_bytes)};
  }
  return {};
}

bool reads_matrices(const dispatch& d) {
  return d.matrices[0].parts != 0 && d.groups_x != 0 && d.groups_y != 0;
}

}  // namespace

std::size_t fetched_at_most() {
  constexpr std::size_t least = std::size_t{128} << 10, most = std::size_t{1} << 20;
  const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::clamp(cache > 0 ? static_cast<std::size_t>(cache) / 2 : 0, least, most);
}

fetch_plan::fetch_plan(std::span<cpu_phase> phases, std::span<const dispatch> dispatches,
                       unsigned threads, std::size_t most_bytes) {
  const auto reading = std::ranges::count_if(dispatches, reads_matrices);
  fetches_.reserve(static_cast<std::size_t>(reading) * threads);  // spans into it stay
  std::span<const fetch_ahead> next;
  for (std::size_t k = phases.size(); k-- > 0;) {
    phases[k].next = next;
    if (!reads_matrices(dispatches[k])) continue;
    const std::size_t first = fetches_.size();
    for (unsigned w = 0; w < threads; w++) {
      fetches_.push_back(first_read(dispatches[k], share_begin(phases[k], w, threads),
                                    share_begin(phases[k], w + 1, threads), most_bytes));
    }
    next = std::span(fetches_).subspan(first, threads);
  }
}

}  // namespace terrane::engine
