#include "kernels/formats/super_block.hpp"

#include <array>

namespace terrane::kernels {

block_scales unpack_scales(builder& b, val s0, val s1, val s2) {
  val six = b.u32(0x3f3f3f3fu), four = b.u32(0x0f0f0f0fu), top = b.u32(0x30303030u);
  return {s0 & six, (s2 & four) | (lshr(s0, 2) & top), s1 & six,
          (lshr(s2, 4) & four) | (lshr(s1, 2) & top)};
}

namespace {

// Byte `index` (0..3, i32) of a word.
val byte_of(builder& b, val word, val index) {
  return b.binary(opcode::ilshr, word, index << 3) & b.i32(255);
}

// Of the two low bytes a, b: a, a, b, b. A minimum is that of two sixteens.
val twice_each(builder& b, val two) {
  const val apart = (two | (two << 8)) & b.u32(0x00ff00ffu);
  return apart | (apart << 8);
}

}  // namespace

val super_block_segment(const segment_context& s, int bits,
                        const std::function<vals(val group, bool high)>& words) {
  builder& b = s.b;
  vals header = b.stream_lanes_x4(s.weights);
  block_scales scales = unpack_scales(b, header[1], header[2], header[3]);
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  vals sums = b.loop(b.i32(0), b.i32(4), 1, {zero}, [&](val group, const vals& carried) {
    val is_low_half = lt(group, b.i32(2));
    val sc = b.select(is_low_half, scales.sc_low, scales.sc_high);
    const val block = group << 1, next = block + b.i32(1);
    const val even = block & b.i32(2), odd = even + b.i32(1);
    val low = b.tile_dot(zero, s.q_of(block), s.stride, words(group, false), bits);
    val high = b.tile_dot(zero, s.q_of(next), s.stride, words(group, true), bits);
    val sc0 = byte_of(b, sc, even), sc1 = byte_of(b, sc, odd);
    std::array<val, 3> tiles = {low, high, carried[0]};
    return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
      const val first = s.in_part(column, block, sc0 * e[0]);
      return vals{(e[2] + first) + s.in_part(column, next, sc1 * e[1])};
    });
  });
  vals minima;
  for (val four : {scales.m_low, scales.m_high})
    for (val two : {four & b.u32(0xffffu), lshr(four, 16)}) minima.push_back(twice_each(b, two));
  sums.push_back(s.times_sums(minima, 6));
  const val d = half(b, header[0] & b.u32(0xffffu)), dmin = half(b, lshr(header[0], 16));
  return b.tile_map(sums, s.columns, [&](val column, const vals& e) {
    val scaled = d * b.unary(opcode::i2f, e[0]) - dmin * b.unary(opcode::i2f, e[1]);
    return vals{scaled * s.scale(column, b.i32(0))};
  })[0];
}

val super_block_value(builder& b, val block, val row, val first, val q) {
  vals header = b.load_words(b.offset(block, row, 16), 4);
  block_scales scales = unpack_scales(b, header[1], header[2], header[3]);
  val part = lshr(first, 5), is_low_half = lt(part, b.i32(4)), index = part & b.i32(3);
  val sc = byte_of(b, b.select(is_low_half, scales.sc_low, scales.sc_high), index);
  val m = byte_of(b, b.select(is_low_half, scales.m_low, scales.m_high), index);
  val d = half(b, header[0] & b.u32(0xffffu)), dmin = half(b, lshr(header[0], 16));
  val scaled = d * b.unary(opcode::i2f, sc);
  return scaled * b.unary(opcode::i2f, q) - dmin * b.unary(opcode::i2f, m);
}

}  // namespace terrane::kernels
