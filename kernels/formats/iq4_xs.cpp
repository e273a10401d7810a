// IQ4_XS: 256 weights (d*(sc[j] - 32))*v[q], q of 4 bits, v the signed values of iq4_table, sc[j]
// of 6 bits for each 32. Stored: f16 d, u16 the upper two bits of each sc, four bytes with the
// lower four (nibble j is sc[j]'s), nibbles[128]: 16 bytes for each 32, as IQ4_NL's.
//
// One super-block, one term: (d*dx)*S, S = sum (sc - 32)*is with is = sum v*x, all exact; |S| is at
// most 256*32*127*127 = 132,128,768.
#include <array>

#include "kernels/formats/code_table.hpp"
#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t q_plane = 0, head_plane = warp_lanes * 128;

// sc[j] - 32 from the two words before the nibbles; `j` an i32.
val block_scale(builder& b, val d_and_high, val low, val j) {
  val four = b.binary(opcode::ilshr, low, j << 2) & b.i32(15);
  val two = b.binary(opcode::ilshr, lshr(d_and_high, 16), j << 1) & b.i32(3);
  return (four | (two << 4)) - b.i32(32);
}

val segment(const segment_context& s) {
  builder& b = s.b;
  val head = b.stream_lanes(memory_type::i32, b.offset(s.weights, head_plane));
  val low = b.stream_lanes(memory_type::i32, b.offset(s.weights, head_plane + warp_lanes * 4));
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  vals sum = b.loop(b.i32(0), b.i32(8), 1, {zero}, [&](val block, const vals& carried) {
    val nibbles = b.offset(s.weights, block, warp_lanes * 16);
    vals words = look_up(b, iq4_table, spread_nibbles(b, load_units(b, nibbles, q_plane, 1)));
    val dots = b.tile_dot(zero, s.q_of(block), s.stride, words, iq4_table.bits);
    val sc = block_scale(b, head, low, block);
    std::array<val, 2> tiles = {dots, carried[0]};
    return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
      val is = e[0] - (s.block_sum(column, block) << iq4_table.offset_bits);
      return vals{e[1] + s.in_part(column, block, sc * is)};
    });
  });
  val d = half(b, head & b.u32(0xffffu));
  return b.tile_map(sum, s.columns, [&](val column, const vals& e) {
    val term = (d * s.scale(column, b.i32(0))) * b.unary(opcode::i2f, e[0]);
    return vals{term};
  })[0];
}

val value(builder& b, val block, val row, val first) {
  val j = lshr(first, 5);
  val head = b.load(memory_type::i32, plane_byte(b, block, head_plane, b.i32(0), row, 4));
  val low = b.load(memory_type::i32, plane_byte(b, block, head_plane, b.i32(4), row, 4));
  val sc = block_scale(b, head, low, j);
  val code = lane_nibble(b, b.offset(block, j, warp_lanes * 16), row, q_plane);
  val d = half(b, head & b.u32(0xffffu));
  return (d * b.unary(opcode::i2f, sc)) * b.unary(opcode::i2f, look_up_one(b, iq4_table, code));
}

}  // namespace

const weight_format& iq4_xs_format() {
  static const weight_format format = {
      .name = "IQ4_XS",
      .ggml_type = 23,
      .block_elements = 256,
      .block_bytes = 136,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 8, .bytes = 128, .unit_bytes = 16},
                 {.source_offset = 0, .bytes = 8, .unit_bytes = 4}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
