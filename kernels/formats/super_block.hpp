// What Q4_K and Q5_K share: 256 weights (d*sc[j])*q - dmin*m[j], with a 6-bit sc and m for each 32.
// The first 16 stored bytes are f16 d, f16 dmin and 12 bytes that hold the eight sc and m. Weights
// 64g .. 64g+31 are the low nibbles of bytes 32g .. 32g+31, the next 32 the high ones.
#pragma once

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

// sc and m of blocks 0..3 (low) and 4..7 (high), a byte each, from the three words after d, dmin.
struct block_scales {
  val sc_low, sc_high, m_low, m_high;
};
block_scales unpack_scales(builder& b, val s0, val s1, val s2);

// One super-block, one term: (d*S - dmin*M)*dx with S = sum sc*is, M = sum m*bs.
//   words(g, high): the 8 words of block 2g (high false) or 2g+1 of one segment
val super_block_segment(const segment_context& s, int bits,
                        const std::function<vals(val group, bool high)>& words);

// (d*sc)*q - dmin*m for `q` (i32) of element `first + lane` of a row; the header plane is the
// first.
val super_block_value(builder& b, val block, val row, val first, val q);

}  // namespace terrane::kernels
