// What Q4_0, Q4_1, Q5_0 and Q5_1 share: 16 bytes hold 32 nibbles, byte j the weights j (low) and
// j + 16 (high); the 5-bit formats add a word whose bit j is bit 4 of weight j.
#pragma once

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

// 8 words of four weights each, rising k, from the 16 bytes of nibbles (4 words).
vals spread_nibbles(builder& b, const vals& packed);

// The same with bit 4 of each weight from `high` (bit j for weight j).
vals spread_nibbles(builder& b, const vals& packed, val high);

// The nibble of weight `lane` of one row, as i32. `nibbles`: the plane's offset in the packed
// block.
val lane_nibble(builder& b, val block, val row, std::uint32_t nibble_plane);

// Bit 4 of weight `lane` of one row, in place (0 or 16).
val lane_high_bit(builder& b, val block, val row, std::uint32_t high_plane);

}  // namespace terrane::kernels
