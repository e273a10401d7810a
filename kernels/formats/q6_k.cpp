// Q6_K: 256 weights (d*sc[j])*(q - 32), q of 6 bits, an int8 sc for each 16. Stored: low nibbles
// [128], upper bit pairs[64], int8 sc[16], f16 d.
//
// In each half of 128 weights, with l = 0..31: weights l and 64 + l are the low and high nibbles of
// byte l, weights 32 + l and 96 + l those of byte 32 + l; the bits 2j, 2j+1 of upper byte l belong
// to weight 32j + l.
#include <array>

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t low_plane = 0, upper_plane = warp_lanes * 128;
constexpr std::uint32_t sc_plane = warp_lanes * 192, d_plane = warp_lanes * 208;

// Adds quarter `j` (32 weights, two scales) of a half to the tile of S before its offset.
val add_quarter(const segment_context& s, val sum, val block, val scales, int j, const vals& low,
                const vals& upper) {
  builder& b = s.b;
  vals words;
  for (std::size_t k = 0; k < 8; k++) {
    val nibbles = low[k + (j % 2 == 0 ? 0 : 8)];
    val four = (j < 2 ? nibbles : lshr(nibbles, 4)) & b.u32(0x0f0f0f0fu);
    val two = (j == 0 ? upper[k] : lshr(upper[k], 2 * j)) & b.u32(0x03030303u);
    words.push_back(four | (two << 4));
  }
  val zero = b.tile_zero(scalar_type::i32, s.columns);
  std::span<const val> all = words;
  const val x0 = s.q_of(block), x1 = b.offset(x0, 16);
  std::array<val, 3> tiles = {b.tile_dot(zero, x0, s.stride, all.first(4), 6),
                              b.tile_dot(zero, x1, s.stride, all.last(4), 6), sum};
  int shift = 16 * (j % 2);
  val sc0 = ashr(scales << (24 - shift), 24), sc1 = ashr(scales << (16 - shift), 24);
  return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
    if (!s.in_parts) return vals{(e[2] + sc0 * e[0]) + sc1 * e[1]};
    return vals{e[2] + s.in_part(column, block, sc0 * e[0] + sc1 * e[1])};
  })[0];
}

// 32 * (sum of sc*bs over the sixteens), which comes off S because weights go unsigned. Scales go
// unsigned too, as sc + 128.
val offset_of(const segment_context& s, const vals& scales) {
  builder& b = s.b;
  vals raised;
  for (val four : scales) raised.push_back(four ^ b.u32(0x80808080u));
  const vals ones(4, b.spread_to_lanes(b.u32(0x01010101u)));
  const std::array<val, 2> tiles = {s.times_sums(raised, 8), s.times_sums(ones, 1)};
  return b.tile_map(tiles, s.columns,
                    [&](val, const vals& e) { return vals{(e[0] - (e[1] << 7)) << 5}; })[0];
}

val segment(const segment_context& s) {
  builder& b = s.b;
  vals sc = load_units(b, s.weights, sc_plane, 1);
  vals start = {b.tile_zero(scalar_type::i32, s.columns)};
  vals sum = b.loop(b.i32(0), b.i32(2), 1, start, [&](val half_index, const vals& carried) {
    vals low = load_units(b, b.offset(s.weights, half_index, warp_lanes * 64), low_plane, 4);
    vals upper = load_units(b, b.offset(s.weights, half_index, warp_lanes * 32), upper_plane, 2);
    val first_half = eq(half_index, b.i32(0)), total = carried[0];
    for (int j = 0; j < 4; j++) {
      auto word = static_cast<std::size_t>(j / 2);
      val scales = b.select(first_half, sc[word], sc[word + 2]);
      total = add_quarter(s, total, (half_index << 2) + b.i32(j), scales, j, low, upper);
    }
    return vals{total};
  });
  sum.push_back(offset_of(s, sc));
  val d = half(b, b.stream_lanes(memory_type::u16, b.offset(s.weights, d_plane)));
  return b.tile_map(sum, s.columns, [&](val column, const vals& e) {
    val term = (d * s.scale(column, b.i32(0))) * b.unary(opcode::i2f, e[0] - e[1]);
    return vals{term};
  })[0];
}

val value(builder& b, val block, val row, val first) {
  val part = lshr(first, 5) & b.i32(3), second_half = lshr(first, 7);
  val low_byte = (second_half << 6) + ((part & b.i32(1)) << 5) + b.lane();
  val pair = b.load(memory_type::u8, plane_byte(b, block, low_plane, low_byte, row, 16));
  val low = b.binary(opcode::ilshr, pair, lshr(part, 1) << 2) & b.i32(15);
  val upper_byte = (second_half << 5) + b.lane();
  val uppers = b.load(memory_type::u8, plane_byte(b, block, upper_plane, upper_byte, row, 16));
  val upper = b.binary(opcode::ilshr, uppers, part << 1) & b.i32(3);
  val index = lshr(first + b.lane(), 4);
  val sc = b.load(memory_type::i8, plane_byte(b, block, sc_plane, index, row, 16));
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  val q = (low | (upper << 4)) - b.i32(32);
  return (d * b.unary(opcode::i2f, sc)) * b.unary(opcode::i2f, q);
}

}  // namespace

const weight_format& q6_k_format() {
  static const weight_format format = {
      .name = "Q6_K",
      .ggml_type = 14,
      .block_elements = 256,
      .block_bytes = 210,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 0, .bytes = 128, .unit_bytes = 16},
                 {.source_offset = 128, .bytes = 64, .unit_bytes = 16},
                 {.source_offset = 192, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 208, .bytes = 2, .unit_bytes = 2}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 208, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
