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
// Of a half, those that share a word of nibbles side by side.
constexpr std::array<int, 4> quarters = {0, 2, 1, 3};
constexpr int few_columns = 4;

// Byte `index` of `scales`, with its sign.
val signed_byte(val scales, int index) {
  return ashr(index == 3 ? scales : scales << (24 - 8 * index), 24);
}

// The words of sixteen weights of each quarter of a half, the first or second of them (`u`), as
// products with the activations: tiles, by `quarters`.
vals products(const segment_context& s, val half_index, std::uint32_t u) {
  builder& b = s.b;
  auto unit = [&](std::uint32_t half_bytes, std::uint32_t plane, std::uint32_t index) {
    const val half_plane = b.offset(s.weights, half_index, warp_lanes * half_bytes);
    return load_units(b, half_plane, plane + index * warp_lanes * 16, 1);
  };
  const vals upper = unit(32, upper_plane, u);
  const std::array<vals, 2> low = {unit(64, low_plane, u), unit(64, low_plane, u + 2)};
  vals tiles;
  for (int j : quarters) {
    vals words;
    for (std::size_t k = 0; k < 4; k++) {
      const val nibbles = low[static_cast<std::size_t>(j % 2)][k];
      const val four = (j < 2 ? nibbles : lshr(nibbles, 4)) & b.u32(0x0f0f0f0fu);
      const val two = (j == 0 ? upper[k] : lshr(upper[k], 2 * j)) & b.u32(0x03030303u);
      words.push_back(four | (two << 4));
    }
    const val x = b.offset(s.q_of((half_index << 2) + b.i32(j)), std::int64_t{16} * u);
    tiles.push_back(b.tile_dot(b.tile_zero(scalar_type::i32, s.columns), x, s.stride, words, 6));
  }
  return tiles;
}

// A half's addition to the tile of S before its offset; `scales`: two words with its eight. With
// few columns one sixteen after another, since registers are what is short.
val add_half_in_turn(const segment_context& s, val sum, val half_index, const vals& scales) {
  builder& b = s.b;
  const val zero = b.spread_to_lanes(b.i32(0));
  for (std::uint32_t u = 0; u < 2; u++) {
    vals tiles = products(s, half_index, u);
    tiles.push_back(sum);
    sum = b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
      val total = e[4];
      for (std::size_t at = 0; at < 4; at++) {
        const int j = quarters[at], index = 2 * (j % 2) + static_cast<int>(u);
        const val word = scales[static_cast<std::size_t>(j / 2)];
        // Times the factor of the part; the other bytes of the word meet its zeros.
        const val sc = s.in_parts ? b.dot4(s.part_factor(column, (half_index << 2) + b.i32(j)),
                                           index == 0 ? word : lshr(word, 8 * index), zero, 4)
                                  : signed_byte(word, index);
        total = total + sc * e[at];
      }
      return vals{total};
    })[0];
  }
  return sum;
}

// The same with many: all products are begun before the first is waited for.
val add_half_at_once(const segment_context& s, val sum, val half_index, const vals& scales) {
  builder& b = s.b;
  vals tiles = products(s, half_index, 0);
  for (val tile : products(s, half_index, 1)) tiles.push_back(tile);
  tiles.push_back(sum);
  std::array<std::array<val, 2>, 4> sc;
  for (std::size_t at = 0; at < 4; at++) {
    const val word = scales[static_cast<std::size_t>(quarters[at] / 2)];
    const int index = 2 * (quarters[at] % 2);
    sc[at] = {signed_byte(word, index), signed_byte(word, index + 1)};
  }
  return b.tile_map(tiles, s.columns, [&](val column, const vals& e) {
    val total = e[8];
    for (std::size_t at = 0; at < 4; at++) {
      const val block = (half_index << 2) + b.i32(quarters[at]);
      total = total + s.in_part(column, block, sc[at][0] * e[at] + sc[at][1] * e[at + 4]);
    }
    return vals{total};
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
    const val first_half = eq(half_index, b.i32(0));
    const vals scales = {b.select(first_half, sc[0], sc[2]), b.select(first_half, sc[1], sc[3])};
    return vals{s.columns < few_columns ? add_half_in_turn(s, carried[0], half_index, scales)
                                        : add_half_at_once(s, carried[0], half_index, scales)};
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
