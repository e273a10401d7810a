// F32: 32 consecutive numbers a packed block. Each product rounds, then adds, in rising k.
#include <bit>
#include <cstring>

#include "kernels/contract/host.hpp"
#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t block_bytes = 128;

vals unpack(const vals& words) {
  vals w;
  for (val word : words) w.push_back(word.owner().unary(opcode::bits_to_float, word));
  return w;
}

val segment(const segment_context& s) {
  return fold_products(s, warp_lanes * block_bytes, unpack, false);
}

val value(builder& b, val block, val row, val first) {
  val byte = (first + b.lane()) << 2;
  return b.load(memory_type::f32, plane_byte(b, block, 0, byte, row, 16));
}

void store_rule(std::span<std::byte> stored) {
  for (std::size_t k = 0; k + 4 <= stored.size(); k += 4) {
    float x;
    std::memcpy(&x, &stored[k], 4);
    x = contract::store_rule(x);
    std::memcpy(&stored[k], &x, 4);
  }
}

}  // namespace

const weight_format& f32_format() {
  static const weight_format format = {
      .name = "F32",
      .ggml_type = 0,
      .block_elements = 32,
      .block_bytes = block_bytes,
      .activations = activation_kind::f32,
      .planes = {{.source_offset = 0, .bytes = 128, .unit_bytes = 16}},
      .segment = segment,
      .value = value,
      .store_rule = store_rule,
      .numbers = {.kind = number_kind::f32, .source_offset = 0, .count = 32}};
  return format;
}

}  // namespace terrane::kernels
