// BF16: the upper halves of f32 numbers, 32 a packed block. Activations are rounded to f16, so
// products are exact.
#include <cstring>

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 64;

vals unpack(const vals& words) {
  vals w;
  for (val word : words) {
    builder& b = word.owner();
    w.push_back(b.unary(opcode::bits_to_float, word << 16));
    w.push_back(b.unary(opcode::bits_to_float, word & b.u32(0xffff0000u)));
  }
  return w;
}

val segment(const segment_context& s) {
  return fold_products(s, warp_lanes * block_bytes, unpack, true);
}

val value(builder& b, val block, val row, val first) {
  val byte = (first + b.lane()) << 1;
  val bits = b.load(memory_type::u16, plane_byte(b, block, 0, byte, row, 16));
  return b.unary(opcode::bits_to_float, bits << 16);
}

void store_rule(std::span<std::byte> stored) {
  for (std::size_t k = 0; k + 2 <= stored.size(); k += 2) {
    std::uint16_t upper;
    std::memcpy(&upper, &stored[k], 2);
    if ((upper & 0x7fffu) < 0x2180u) stored[k] = stored[k + 1] = std::byte{0};  // 2^-60
  }
}

}  // namespace

const weight_format& bf16_format() {
  static const weight_format format = {
      .name = "BF16",
      .ggml_type = 30,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::f16,
      .planes = {{.source_offset = 0, .bytes = 64, .unit_bytes = 16}},
      .segment = segment,
      .value = value,
      .store_rule = store_rule,
      .numbers = {.kind = number_kind::bf16, .source_offset = 0, .count = 32}};
  return format;
}

}  // namespace terrane::kernels
