// Q3_K: 256 weights (d*(sc[j] - 32))*(q - 4), q of 3 bits, sc of 6 bits for each 16. Stored: high
// bits[32], low bit pairs[64], 12 bytes of sc, f16 d.
//
// In each half of 128 weights, bits 2j, 2j+1 of byte l (0..31) of its 32 bytes of pairs belong to
// weight 32j + l; bit 4*half + j of high byte l is that weight's upper one. The lower four bits of
// sc[j] are the low nibble of byte j for j < 8, the high nibble of byte j - 8 for the others; the
// upper two are bits 2*(j/4) of byte 8 + j % 4.
//
// One super-block, one term, as Q6_K's: (d*dx)*S, S = sum (sc - 32)*(is - 4*bs) over sixteens.
#include <array>

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t high_plane = 0, pair_plane = warp_lanes * 32;
constexpr std::uint32_t sc_plane = warp_lanes * 96, d_plane = warp_lanes * 108;

// sc of sixteens 4w .. 4w+3 for w = 0..3, a byte each.
std::array<val, 4> unpack_scales(builder& b, val s0, val s1, val s2) {
  val four = b.u32(0x0f0f0f0fu), two = b.u32(0x03030303u);
  auto upper = [&](int w) { return ((w == 0 ? s2 : lshr(s2, 2 * w)) & two) << 4; };
  return {(s0 & four) | upper(0), (s1 & four) | upper(1), (lshr(s0, 4) & four) | upper(2),
          (lshr(s1, 4) & four) | upper(3)};
}

// Adds quarter `j` (32 weights, two sixteens) of a half to the tile of S.
//   scales: the word whose bytes 2*(j % 2) and the next are the quarter's sc
//   high: bit j of each byte is the upper bit of the quarter's weights
val add_quarter(const segment_context& s, val total, val block, val scales, int j,
                const vals& pairs, const vals& high) {
  builder& b = s.b;
  vals words;
  for (std::size_t k = 0; k < 8; k++) {
    val two = (j == 0 ? pairs[k] : lshr(pairs[k], 2 * j)) & b.u32(0x03030303u);
    val one = (j == 0 ? high[k] : lshr(high[k], j)) & b.u32(0x01010101u);
    words.push_back(two | (one << 2));
  }
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  std::span<const val> all = words;
  const val x0 = s.q_of(block), x1 = b.offset(x0, 16);
  std::array<val, 3> tiles = {b.tile_dot(zero, x0, s.stride, all.first(4), 3),
                              b.tile_dot(zero, x1, s.stride, all.last(4), 3), total};
  int at = 16 * (j % 2);
  val sc0 = ((at == 0 ? scales : lshr(scales, at)) & b.i32(255)) - b.i32(32);
  val sc1 = (lshr(scales, at + 8) & b.i32(255)) - b.i32(32);
  return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
    const vals bs = s.two_sums(column, block);
    const val of_block = sc0 * (e[0] - (bs[0] << 2)) + sc1 * (e[1] - (bs[1] << 2));
    return vals{e[2] + s.in_part(column, block, of_block)};
  })[0];
}

val segment(const segment_context& s) {
  builder& b = s.b;
  std::array<val, 3> stored;
  for (std::uint32_t w = 0; w < 3; w++)
    stored[w] = b.stream_lanes(memory_type::i32,
                               b.offset(s.weights, sc_plane + std::int64_t{w} * warp_lanes * 4));
  std::array<val, 4> sc = unpack_scales(b, stored[0], stored[1], stored[2]);
  vals high_bits = load_units(b, s.weights, high_plane, 2);
  vals start = {b.tile_zero(scalar_type::i32, s.columns)};
  vals sum = b.loop(b.i32(0), b.i32(2), 1, start, [&](val half_index, const vals& carried) {
    vals pairs = load_units(b, b.offset(s.weights, half_index, warp_lanes * 32), pair_plane, 2);
    vals high;
    for (val w : high_bits) high.push_back(b.binary(opcode::ilshr, w, half_index << 2));
    val first_half = eq(half_index, b.i32(0)), total = carried[0];
    for (int j = 0; j < 4; j++) {
      auto word = static_cast<std::size_t>(j / 2);
      val scales = b.select(first_half, sc[word], sc[word + 2]);
      total = add_quarter(s, total, (half_index << 2) + b.i32(j), scales, j, pairs, high);
    }
    return vals{total};
  });
  val d = half(b, b.stream_lanes(memory_type::u16, b.offset(s.weights, d_plane)));
  return b.tile_map(sum, s.columns, [&](val column, const vals& e) {
    val term = (d * s.scale(column, b.i32(0))) * b.unary(opcode::i2f, e[0]);
    return vals{term};
  })[0];
}

// sc[index] - 32 of one row; `index` an i32.
val one_scale(builder& b, val block, val row, val index) {
  auto byte = [&](val at) {
    return b.load(memory_type::u8, plane_byte(b, block, sc_plane, at, row, 4));
  };
  val four = b.binary(opcode::ilshr, byte(index & b.i32(7)), lshr(index, 3) << 2) & b.i32(15);
  val upper = byte(b.i32(8) + (index & b.i32(3)));
  val two = b.binary(opcode::ilshr, upper, lshr(index, 2) << 1) & b.i32(3);
  return (four | (two << 4)) - b.i32(32);
}

val value(builder& b, val block, val row, val first) {
  val part = lshr(first, 5), byte = (lshr(first, 7) << 5) + b.lane();
  val four = b.load(memory_type::u8, plane_byte(b, block, pair_plane, byte, row, 16));
  val low = b.binary(opcode::ilshr, four, (part & b.i32(3)) << 1) & b.i32(3);
  val eight = b.load(memory_type::u8, plane_byte(b, block, high_plane, b.lane(), row, 16));
  val high = b.binary(opcode::ilshr, eight, part) & b.i32(1);
  val sc = one_scale(b, block, row, lshr(first + b.lane(), 4));
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  val q = (low | (high << 2)) - b.i32(4);
  return (d * b.unary(opcode::i2f, sc)) * b.unary(opcode::i2f, q);
}

}  // namespace

const weight_format& q3_k_format() {
  static const weight_format format = {
      .name = "Q3_K",
      .ggml_type = 11,
      .block_elements = 256,
      .block_bytes = 110,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 0, .bytes = 32, .unit_bytes = 16},
                 {.source_offset = 32, .bytes = 64, .unit_bytes = 16},
                 {.source_offset = 96, .bytes = 12, .unit_bytes = 4},
                 {.source_offset = 108, .bytes = 2, .unit_bytes = 2}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 108, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
