// Q8_0: 32 weights d*q. Stored: f16 d, int8 q[32].
#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 34, packed_bytes = warp_lanes * block_bytes;
constexpr std::uint32_t q_plane = 0, d_plane = warp_lanes * 32;

val scale(builder& b, val block) {
  return half(b, b.stream_lanes(memory_type::u16, b.offset(block, d_plane)));
}

val segment(const segment_context& s) {
  builder& b = s.b;
  return fold_blocks(s, packed_bytes, [&b](val block) {
    // Weights go as unsigned bytes, 128 too large; 128 times the activations' sum comes off again.
    vals words = load_units(b, block, q_plane, 2);
    for (val& w : words) w = w ^ b.u32(0x80808080u);
    val d = scale(b, block);
    return block_parts{words, 8, [&b, d](val is, val bs, val dx) {
                         return (d * dx) * b.unary(opcode::i2f, is - (bs << 7));
                       }};
  });
}

val value(builder& b, val block, val row, val) {
  val q = b.load(memory_type::i8, plane_byte(b, block, q_plane, b.lane(), row, 16));
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  return d * b.unary(opcode::i2f, q);
}

}  // namespace

const weight_format& q8_0_format() {
  static const weight_format format = {
      .name = "Q8_0",
      .ggml_type = 8,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::q8_by_32,
      .planes = {{.source_offset = 2, .bytes = 32, .unit_bytes = 16},
                 {.source_offset = 0, .bytes = 2, .unit_bytes = 2}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
