// MXFP4: 32 weights d*v[q], q an E2M1 number, d a power of two (OCP Microscaling Formats 1.0).
// Stored: one byte e, nibbles[16]. As in GGUF, v is twice the E2M1 number, an integer, and d is
// half the E8M0 scale: 2^(e - 128). A term is (d*dx)*is, is = sum v*x exact, as Q4_0's.
//
// The store rule holds for weights, and E8M0 reaches far below it: at packing the byte becomes the
// exponent field of d as f32, and a d below 2^-59 becomes 0. So no product of d and an activation's
// scale (at least 2^-67) is denormal. e = 255 is the standard's NaN; d becomes infinite, which the
// engine reports as it does any number that is not finite.
#include "kernels/formats/code_table.hpp"
#include "kernels/formats/nibbles.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 17, packed_bytes = warp_lanes * block_bytes;
constexpr std::uint32_t q_plane = 0, d_plane = warp_lanes * 16;
constexpr std::uint32_t least_e = 128 - 59, nan_e = 255;

// Twice the numbers of E2M1; code 8 is -0.
constexpr code_table table = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 4, 5};

val scale(builder& b, val exponent) { return b.unary(opcode::bits_to_float, exponent << 23); }

val segment(const segment_context& s) {
  builder& b = s.b;
  return fold_blocks(s, packed_bytes, [&b](val block) {
    vals words = look_up(b, table, spread_nibbles(b, load_units(b, block, q_plane, 1)));
    val d = scale(b, b.stream_lanes(memory_type::u8, b.offset(block, d_plane)));
    return block_parts{words, table.bits, [&b, d](val is, val bs, val dx) {
                         val exact = is - (bs << table.offset_bits);
                         return (d * dx) * b.unary(opcode::i2f, exact);
                       }};
  });
}

val value(builder& b, val block, val row, val) {
  val v = look_up_one(b, table, lane_nibble(b, block, row, q_plane));
  val e = b.load(memory_type::u8, plane_byte(b, block, d_plane, b.i32(0), row, 1));
  return scale(b, e) * b.unary(opcode::i2f, v);
}

void store_rule(std::span<std::byte> stored) {
  for (std::size_t block = 0; block < stored.size(); block += block_bytes) {
    auto e = static_cast<std::uint32_t>(stored[block]);
    std::uint32_t exponent = e == nan_e ? nan_e : e < least_e ? 0 : e - 1;
    stored[block] = static_cast<std::byte>(exponent);
  }
}

}  // namespace

const weight_format& mxfp4_format() {
  static const weight_format format = {
      .name = "MXFP4",
      .ggml_type = 39,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::q8_by_32,
      .planes = {{.source_offset = 1, .bytes = 16, .unit_bytes = 16},
                 {.source_offset = 0, .bytes = 1, .unit_bytes = 1}},
      .segment = segment,
      .value = value,
      .store_rule = store_rule,
      .numbers = {.kind = number_kind::e8m0, .source_offset = 0, .count = 1}};
  return format;
}

}  // namespace terrane::kernels
