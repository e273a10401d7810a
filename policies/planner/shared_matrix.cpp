#include "policies/planner/shared_matrix.hpp"

#include <algorithm>

#include "policies/planner/propose.hpp"

namespace terrane::policies {

std::vector<const part_state*> readers_beside(const snapshot& now, const part_state& part,
                                              const std::string& device, const whereabouts& where) {
  std::vector<const part_state*> found;
  if (part.shared < 0) return found;
  for (const part_state& other : now.parts) {
    const bool reads_it = other.shared == part.shared && other.name != part.name;
    if (reads_it && where(other) == device) found.push_back(&other);
  }
  return found;
}

moved_bytes bytes_of_move(const snapshot& now, const part_state& part, const std::string& to,
                          const whereabouts& where) {
  const std::uint64_t all = moving_bytes(part);
  moved_bytes m{all, all - std::min(all, part.kv_blank_bytes), all};
  if (part.shared < 0) return m;
  const std::uint64_t shared = std::min(part.shared_bytes, part.weight_bytes);
  if (!readers_beside(now, part, part.device, where).empty()) m.freed -= shared;
  if (to.empty() || readers_beside(now, part, to, where).empty()) return m;
  m.taken -= shared;
  m.copied -= std::min(m.copied, shared);
  return m;
}

}  // namespace terrane::policies
