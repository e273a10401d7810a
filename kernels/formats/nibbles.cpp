#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

vals spread_nibbles(builder& b, const vals& packed) {
  vals words;
  for (val w : packed) words.push_back(w & b.u32(0x0f0f0f0fu));
  for (val w : packed) words.push_back(lshr(w, 4) & b.u32(0x0f0f0f0fu));
  return words;
}

vals spread_nibbles(builder& b, const vals& packed, val high) {
  vals words = spread_nibbles(b, packed);
  for (int k = 0; k < 8; k++) {
    // Four bits to the lowest bit of four bytes: copies at distances of 7 bits do not overlap.
    val four = lshr(high, 4 * k) & b.u32(15);
    val spread = (four * b.u32(0x00204081u)) & b.u32(0x01010101u);
    words[static_cast<std::size_t>(k)] = words[static_cast<std::size_t>(k)] | (spread << 4);
  }
  return words;
}

val lane_nibble(builder& b, val block, val row, std::uint32_t nibble_plane) {
  val byte = b.lane() & b.i32(15);
  val pair = b.load(memory_type::u8, plane_byte(b, block, nibble_plane, byte, row, 16));
  return b.select(lt(b.lane(), b.i32(16)), pair & b.i32(15), lshr(pair, 4));
}

val lane_high_bit(builder& b, val block, val row, std::uint32_t high_plane) {
  val word = b.load(memory_type::i32, plane_byte(b, block, high_plane, b.i32(0), row, 4));
  return (b.binary(opcode::ilshr, word, b.lane()) & b.i32(1)) << 4;
}

}  // namespace terrane::kernels
