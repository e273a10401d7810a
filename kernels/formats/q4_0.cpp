// Q4_0: 32 weights d*(q - 8), q of 4 bits. Stored: f16 d, nibbles[16].
#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 18, packed_bytes = warp_lanes * block_bytes;
constexpr std::uint32_t q_plane = 0, d_plane = warp_lanes * 16;

val segment(const segment_context& s) {
  builder& b = s.b;
  return fold_blocks(s, packed_bytes, [&b](val block) {
    vals words = spread_nibbles(b, load_units(b, block, q_plane, 1));
    val d = half(b, b.stream_lanes(memory_type::u16, b.offset(block, d_plane)));
    return block_parts{words, 4, [&b, d](val is, val bs, val dx) {
                         return (d * dx) * b.unary(opcode::i2f, is - (bs << 3));
                       }};
  });
}

val value(builder& b, val block, val row, val) {
  val q = lane_nibble(b, block, row, q_plane) - b.i32(8);
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  return d * b.unary(opcode::i2f, q);
}

}  // namespace

const weight_format& q4_0_format() {
  static const weight_format format = {
      .name = "Q4_0",
      .ggml_type = 2,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::q8_by_32,
      .planes = {{.source_offset = 2, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 0, .bytes = 2, .unit_bytes = 2}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
