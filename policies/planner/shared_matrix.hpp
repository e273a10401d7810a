// Parts that read one matrix (a head without one of its own reads the embedding's): a device has it
// once, so it comes with the first of them and becomes free with the last. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "policies/explain/record.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// Where a part is to be once all that is planned is done.
using whereabouts = std::function<std::string(const part_state&)>;

// The other parts that read the same matrix and are on that device; in the snapshot's order.
std::vector<const part_state*> readers_beside(const snapshot& now, const part_state& part,
                                              const std::string& device, const whereabouts& where);

// What a move of a part takes on its target, what of this travels, and what becomes free where it
// was. `to` empty: nothing is there yet.
struct moved_bytes {
  std::uint64_t taken = 0, copied = 0, freed = 0;
};
moved_bytes bytes_of_move(const snapshot& now, const part_state& part, const std::string& to,
                          const whereabouts& where);

// Writes that to a candidate whose part and target are known.
void count_part(const snapshot& now, const part_state& part, candidate& c,
                const whereabouts& where);

// Whether next to nothing of the candidate becomes free before others that read its matrix have
// left.
bool stays_for_others(const snapshot& now, const candidate& c, const whereabouts& where);

// Whether a part is to leave its device, as far as can be told before it is tried.
using leaving = std::function<bool(const part_state&)>;

// Of a part whose matrix stays where it is, which other that reads it is not to leave; empty: all
// are to, or it is no such part.
std::string why_nothing_is_freed(const snapshot& now, const candidate& c, const whereabouts& where,
                                 const leaving& leaves);

}  // namespace terrane::policies
