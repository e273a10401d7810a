#include "engine/tuning/synthetic.hpp"

#include <cstring>

#include "kernels/contract/scalars.hpp"
#include "kernels/mix_bits.hpp"

namespace terrane::engine {

namespace {

// A number in 2^-5..2^-4 of either sign, in the bits of its kind; of e8m0, 2^-7.
std::uint32_t ordinary_bits(kernels::number_kind kind, std::uint64_t random) {
  const auto r = static_cast<std::uint32_t>(random);
  switch (kind) {
    case kernels::number_kind::f32:
      return (r & 0x80000000U) | 122U << 23 | (r & 0x7fffffU);
    case kernels::number_kind::f16:
      return (r >> 16 & 0x8000U) | 10U << 10 | (r & 0x3ffU);
    case kernels::number_kind::bf16:
      return (r >> 16 & 0x8000U) | 122U << 7 | (r & 0x7fU);
    case kernels::number_kind::e8m0:
      break;
  }
  return 120;
}

std::size_t bytes_of(kernels::number_kind kind) {
  return kind == kernels::number_kind::f32 ? 4 : kind == kernels::number_kind::e8m0 ? 1 : 2;
}

}  // namespace

std::vector<float> made_up_floats(std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; i++)
    out[i] = (static_cast<float>(mix_bits(i + 1) % 2047) - 1023.0F) / 1024.0F;
  return out;
}

std::vector<std::uint16_t> made_up_halves(std::size_t n) {
  std::vector<std::uint16_t> out(n);
  for (std::size_t i = 0; i < n; i++)
    out[i] = static_cast<std::uint16_t>(ordinary_bits(kernels::number_kind::f16, mix_bits(i + 1)) +
                                        (i % 4 << 10));
  return out;
}

std::vector<std::byte> made_up_q8_rows(std::uint32_t k, std::uint32_t block, std::uint32_t rows,
                                       std::uint32_t rows_together) {
  const kernels::q8_row_layout layout(k, block, rows_together);
  const std::uint32_t tiles = (rows + rows_together - 1) / rows_together;
  std::vector<std::byte> out(std::size_t{tiles} * layout.tile_bytes);
  for (std::uint32_t row = 0; row < rows; row++) {
    for (std::uint32_t sixteen = 0; sixteen < k / 16; sixteen++) {
      std::int32_t sum = 0;
      for (std::uint32_t i = 16 * sixteen; i < 16 * sixteen + 16; i++) {
        const auto q = static_cast<std::int8_t>(
            static_cast<int>(mix_bits(std::uint64_t{row} * k + i + 1) % 255) - 127);
        sum += q;
        out[layout.q_at(row, i)] = static_cast<std::byte>(q);
      }
      std::memcpy(&out[layout.sum_at(row, sixteen)], &sum, 4);
      if (block != 256) continue;
      const auto factor =
          static_cast<std::int32_t>(1 + mix_bits(sixteen / 2 + 1) % kernels::contract::most_factor);
      std::memcpy(&out[layout.factor_at(row, sixteen / 2)], &factor, 4);
      sum *= factor;
      out[layout.low_sum_at(row, sixteen)] = static_cast<std::byte>(sum & 127);
      out[layout.high_sum_at(row, sixteen)] = static_cast<std::byte>(sum >> 7);
    }
    for (std::uint32_t b = 0; b < k / block; b++) {
      const float scale = 0.01F + 0.001F * static_cast<float>(b % 7);
      std::memcpy(&out[layout.scale_at(row, b)], &scale, 4);
    }
  }
  return out;
}

std::vector<std::byte> made_up_weights(const kernels::weight_format& format, std::uint32_t k) {
  const std::size_t row_blocks = k / format.block_elements;
  std::vector<std::byte> stored(kernels::warp_lanes * row_blocks * format.block_bytes);
  std::uint64_t next = 1;
  for (std::byte& b : stored) b = static_cast<std::byte>(mix_bits(next++));
  const kernels::stored_numbers& numbers = format.numbers;
  const std::size_t size = bytes_of(numbers.kind);
  for (std::size_t block = 0; block < stored.size(); block += format.block_bytes) {
    for (std::size_t i = 0; i < numbers.count; i++) {
      const std::uint32_t bits = ordinary_bits(numbers.kind, mix_bits(next++));
      std::memcpy(&stored[block + numbers.source_offset + i * size], &bits, size);
    }
  }
  std::vector<std::byte> packed(kernels::packed_group_bytes(format, k));
  kernels::pack_rows(format, k, stored, packed);
  return packed;
}

}  // namespace terrane::engine
