// Q2_K: 256 weights (d*sc[j])*q - dmin*m[j], q of 2 bits, sc and m of 4 bits for each 16. Stored: a
// byte for each 16, sc low and m high [16], bit pairs[64], f16 d, f16 dmin.
//
// In each half of 128 weights, bits 2j, 2j+1 of byte l (0..31) of its 32 bytes belong to weight
// 32j + l. One super-block, one term, as Q4_K's: (d*S - dmin*M)*dx, S = sum sc*is, M = sum m*bs
// over sixteens.
#include <array>

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t scale_plane = 0, q_plane = warp_lanes * 16, d_plane = warp_lanes * 80;

// Adds quarter `j` (32 weights, two sixteens) of a half to the tiles of S and M.
//   scales: the word whose bytes 2*(j % 2) and the next are the quarter's
vals add_quarter(const segment_context& s, const vals& totals, val block, val scales, int j,
                 const vals& pairs) {
  builder& b = s.b;
  vals words;
  for (val w : pairs) words.push_back((j == 0 ? w : lshr(w, 2 * j)) & b.u32(0x03030303u));
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  std::span<const val> all = words;
  const val x0 = s.q_of(block), x1 = b.offset(x0, 16);
  std::array<val, 4> tiles = {b.tile_dot(zero, x0, s.stride, all.first(4), 2),
                              b.tile_dot(zero, x1, s.stride, all.last(4), 2), totals[0], totals[1]};
  auto four_bits = [&](int at) { return lshr(scales, at) & b.i32(15); };
  int at = 16 * (j % 2);
  val sc0 = at == 0 ? scales & b.i32(15) : four_bits(at), m0 = four_bits(at + 4);
  val sc1 = four_bits(at + 8), m1 = four_bits(at + 12);
  return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
    const vals bs = s.two_sums(column, block);
    return vals{e[2] + s.in_part(column, block, sc0 * e[0] + sc1 * e[1]),
                e[3] + s.in_part(column, block, m0 * bs[0] + m1 * bs[1])};
  });
}

val segment(const segment_context& s) {
  builder& b = s.b;
  vals scales = load_units(b, s.weights, scale_plane, 1);
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  vals sums = b.loop(b.i32(0), b.i32(2), 1, {zero, zero}, [&](val half_index, const vals& carried) {
    vals pairs = load_units(b, b.offset(s.weights, half_index, warp_lanes * 32), q_plane, 2);
    val first_half = eq(half_index, b.i32(0));
    vals totals = carried;
    for (int j = 0; j < 4; j++) {
      auto word = static_cast<std::size_t>(j / 2);
      val own = b.select(first_half, scales[word], scales[word + 2]);
      totals = add_quarter(s, totals, (half_index << 2) + b.i32(j), own, j, pairs);
    }
    return totals;
  });
  val both = b.stream_lanes(memory_type::i32, b.offset(s.weights, d_plane));
  val d = half(b, both & b.u32(0xffffu)), dmin = half(b, lshr(both, 16));
  return b.tile_map(sums, s.columns, [&](val column, const vals& e) {
    val scaled = d * b.unary(opcode::i2f, e[0]) - dmin * b.unary(opcode::i2f, e[1]);
    return vals{scaled * s.scale(column, b.i32(0))};
  })[0];
}

val value(builder& b, val block, val row, val first) {
  val byte = (lshr(first, 7) << 5) + b.lane(), shift = (lshr(first, 5) & b.i32(3)) << 1;
  val four = b.load(memory_type::u8, plane_byte(b, block, q_plane, byte, row, 16));
  val q = b.binary(opcode::ilshr, four, shift) & b.i32(3);
  val index = lshr(first + b.lane(), 4);
  val scales = b.load(memory_type::u8, plane_byte(b, block, scale_plane, index, row, 16));
  val both = b.load(memory_type::i32, plane_byte(b, block, d_plane, b.i32(0), row, 4));
  val d = half(b, both & b.u32(0xffffu)), dmin = half(b, lshr(both, 16));
  val scaled = d * b.unary(opcode::i2f, scales & b.i32(15));
  return scaled * b.unary(opcode::i2f, q) - dmin * b.unary(opcode::i2f, lshr(scales, 4));
}

}  // namespace

const weight_format& q2_k_format() {
  static const weight_format format = {
      .name = "Q2_K",
      .ggml_type = 10,
      .block_elements = 256,
      .block_bytes = 84,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 0, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 16, .bytes = 64, .unit_bytes = 16},
                 {.source_offset = 80, .bytes = 4, .unit_bytes = 4}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 80, .count = 2}};
  return format;
}

}  // namespace terrane::kernels
