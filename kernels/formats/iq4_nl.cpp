// IQ4_NL: 32 weights d*v[q], q of 4 bits, v the signed values of iq4_table. Stored: f16 d,
// nibbles[16]. A term is (d*dx)*is, is = sum v*x exact, as Q4_0's.
#include "kernels/formats/code_table.hpp"
#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 18, packed_bytes = warp_lanes * block_bytes;
constexpr std::uint32_t q_plane = 0, d_plane = warp_lanes * 16;

val segment(const segment_context& s) {
  builder& b = s.b;
  return fold_blocks(s, packed_bytes, [&b](val block) {
    vals words = look_up(b, iq4_table, spread_nibbles(b, load_units(b, block, q_plane, 1)));
    val d = half(b, b.stream_lanes(memory_type::u16, b.offset(block, d_plane)));
    return block_parts{words, iq4_table.bits, [&b, d](val is, val bs, val dx) {
                         val exact = is - (bs << iq4_table.offset_bits);
                         return (d * dx) * b.unary(opcode::i2f, exact);
                       }};
  });
}

val value(builder& b, val block, val row, val) {
  val v = look_up_one(b, iq4_table, lane_nibble(b, block, row, q_plane));
  val d = half(b, b.load(memory_type::u16, plane_byte(b, block, d_plane, b.i32(0), row, 2)));
  return d * b.unary(opcode::i2f, v);
}

}  // namespace

const weight_format& iq4_nl_format() {
  static const weight_format format = {
      .name = "IQ4_NL",
      .ggml_type = 20,
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
