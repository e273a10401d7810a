// Q5_K: 256 weights of 5 bits. Stored: 16 bytes of scales (super_block.hpp), high bits[32] (bit j
// of byte i belongs to weight 32j + i), nibbles[128].
#include "kernels/formats/super_block.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t high_plane = warp_lanes * 16, q_plane = warp_lanes * 48;

val segment(const segment_context& s) {
  builder& b = s.b;
  vals high_bits = load_units(b, s.weights, high_plane, 2), loaded;
  return super_block_segment(s, 5, [&](val group, bool high) {
    if (!high) loaded = load_units(b, b.offset(s.weights, group, warp_lanes * 32), q_plane, 2);
    val bit = (group << 1) + b.i32(high ? 1 : 0);
    vals words;
    for (std::size_t k = 0; k < loaded.size(); k++) {
      val low = (high ? lshr(loaded[k], 4) : loaded[k]) & b.u32(0x0f0f0f0fu);
      val top = b.binary(opcode::ilshr, high_bits[k], bit) & b.u32(0x01010101u);
      words.push_back(low | (top << 4));
    }
    return words;
  });
}

val value(builder& b, val block, val row, val first) {
  val byte = (lshr(first, 6) << 5) + b.lane();
  val pair = b.load(memory_type::u8, plane_byte(b, block, q_plane, byte, row, 16));
  val low = b.binary(opcode::ilshr, pair, lshr(first & b.i32(32), 3)) & b.i32(15);
  val tops = b.load(memory_type::u8, plane_byte(b, block, high_plane, b.lane(), row, 16));
  val top = b.binary(opcode::ilshr, tops, lshr(first, 5)) & b.i32(1);
  return super_block_value(b, block, row, first, low | (top << 4));
}

}  // namespace

const weight_format& q5_k_format() {
  static const weight_format format = {
      .name = "Q5_K",
      .ggml_type = 13,
      .block_elements = 256,
      .block_bytes = 176,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 0, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 16, .bytes = 32, .unit_bytes = 16},
                 {.source_offset = 48, .bytes = 128, .unit_bytes = 16}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 2}};
  return format;
}

}  // namespace terrane::kernels
