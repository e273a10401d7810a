// Q5_0: 32 weights d*(q - 16), q of 5 bits. Stored: f16 d, u32 high bits, nibbles[16].
#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 22, packed_bytes = warp_lanes * block_bytes;
constexpr std::uint32_t q_plane = 0, high_plane = warp_lanes * 16, d_plane = warp_lanes * 20;

val segment(const segment_context& s) {
  builder& b = s.b;
  return fold_blocks(s, packed_bytes, [&b](val block) {
    val high = b.stream_lanes(memory_type::i32, b.offset(block, high_plane));
    vals words = spread_nibbles(b, load_units(b, block, q_plane, 1), high);
    val d = half(b, b.stream_lanes(memory_type::u16, b.offset(block, d_plane)));
    return block_parts{words, 5, [&b, d](val is, val bs, val dx) {
                         return (d * dx) * b.unary(opcode::i2f, is - (bs << 4));
                       }};
  });
}

val value(builder& b, val block, val row, val) {
  val q =
      (lane_nibble(b, block, row, q_plane) | lane_high_bit(b, block, row, high_plane)) - b.i32(16);
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  return d * b.unary(opcode::i2f, q);
}

}  // namespace

const weight_format& q5_0_format() {
  static const weight_format format = {
      .name = "Q5_0",
      .ggml_type = 6,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::q8_by_32,
      .planes = {{.source_offset = 6, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 2, .bytes = 4, .unit_bytes = 4},
                 {.source_offset = 0, .bytes = 2, .unit_bytes = 2}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
