#include "policies/planner/shared_matrix.hpp"

#include <algorithm>

#include "policies/planner/propose.hpp"
#include "policies/planner/worth.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/saturating.hpp"

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
  moved_bytes m{all, subtract_saturating(all, part.kv_blank_bytes), all};
  if (part.shared < 0) return m;
  const std::uint64_t shared = std::min(part.shared_bytes, part.weight_bytes);
  if (!readers_beside(now, part, part.device, where).empty()) m.freed -= shared;
  if (to.empty() || readers_beside(now, part, to, where).empty()) return m;
  m.taken -= shared;
  m.copied = subtract_saturating(m.copied, shared);
  return m;
}

void count_part(const snapshot& now, const part_state& part, candidate& c,
                const whereabouts& where) {
  const moved_bytes m = bytes_of_move(now, part, c.to, where);
  c.bytes = m.taken;
  c.copied_bytes = m.copied;
  c.freed_bytes = m.freed;
}

bool stays_for_others(const snapshot& now, const candidate& c, const whereabouts& where) {
  const part_state* part = c.kind == subject_kind::part ? find_part(now, c.subject) : nullptr;
  if (part == nullptr || !is_next_to_nothing(c.freed_bytes, moving_bytes(*part))) return false;
  return !readers_beside(now, *part, c.from, where).empty();
}

std::string why_nothing_is_freed(const snapshot& now, const candidate& c, const whereabouts& where,
                                 const leaving& leaves) {
  if (!stays_for_others(now, c, where)) return {};
  const part_state& part = *find_part(now, c.subject);
  const std::vector<const part_state*> readers = readers_beside(now, part, c.from, where);
  const auto stays =
      std::ranges::find_if(readers, [&](const part_state* p) { return !leaves(*p); });
  if (stays == readers.end()) return {};
  return (*stays)->name + " reads the same matrix, which stays on " + c.from +
         " with it: " + format_bytes(static_cast<double>(c.freed_bytes)) + " of " +
         format_bytes(static_cast<double>(moving_bytes(part))) + " would become free";
}

}  // namespace terrane::policies
