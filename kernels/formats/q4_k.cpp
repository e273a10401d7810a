// Q4_K: 256 weights of 4 bits. Stored: 16 bytes of scales (super_block.hpp), nibbles[128].
#include "kernels/formats/super_block.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t q_plane = warp_lanes * 16;

val segment(const segment_context& s) {
  builder& b = s.b;
  vals loaded;
  return super_block_segment(s, 4, [&](val group, bool high) {
    if (!high) loaded = load_units(b, b.offset(s.weights, group, warp_lanes * 32), q_plane, 2);
    vals words;
    for (val w : loaded) words.push_back((high ? lshr(w, 4) : w) & b.u32(0x0f0f0f0fu));
    return words;
  });
}

val value(builder& b, val block, val row, val first) {
  val byte = (lshr(first, 6) << 5) + b.lane();
  val pair = b.load(memory_type::u8, plane_byte(b, block, q_plane, byte, row, 16));
  val q = b.binary(opcode::ilshr, pair, lshr(first & b.i32(32), 3)) & b.i32(15);
  return super_block_value(b, block, row, first, q);
}

}  // namespace

const weight_format& q4_k_format() {
  static const weight_format format = {
      .name = "Q4_K",
      .ggml_type = 12,
      .block_elements = 256,
      .block_bytes = 144,
      .activations = activation_kind::q8_by_256,
      .planes = {{.source_offset = 0, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 16, .bytes = 128, .unit_bytes = 16}},
      .segment = segment,
      .value = value,
      .store_rule = nullptr,
      .numbers = {.kind = number_kind::f16, .source_offset = 0, .count = 2}};
  return format;
}

}  // namespace terrane::kernels
