// What tests of linear() multiply: packed weights, and rows of activations in every kind.
#pragma once

#include <cstring>

#include "kernels/formats/format.hpp"
#include "tests/kernels/format_reference.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {

// The activation buffers of linear(), rows padded with zeros.
struct activation_rows {
  activation_rows(std::vector<std::vector<float>> rows, std::size_t padded, std::size_t k,
                  std::uint32_t block, std::uint32_t together = 1, bool in_parts = false)
      : layout(static_cast<std::uint32_t>(k), block, together),
        floats(std::move(rows)),
        q8((padded + together - 1) / together * layout.tile_bytes),
        f16(padded * k),
        f32(padded * k) {
    for (std::size_t r = 0; r < floats.size(); r++) {
      quantised.push_back(in_parts ? reference::quantise_in_parts(floats[r])
                                   : reference::quantise(floats[r], block));
      EXPECT_EQ(quantised[r].block, layout.block);
      write_quantised(static_cast<std::uint32_t>(r), in_parts);
      for (std::size_t j = 0; j < k; j++) {
        f16[r * k + j] = reference::f16(floats[r][j]);
        f32[r * k + j] = floats[r][j];
      }
    }
  }
  q8_row_layout layout;
  std::vector<std::vector<float>> floats;
  std::vector<reference::quantised> quantised;
  aligned_buffer<std::byte> q8;
  aligned_buffer<float> f16, f32;

 private:
  void write_quantised(std::uint32_t row, bool in_parts) {
    const reference::quantised& x = quantised[row];
    for (std::uint32_t i = 0; i < x.q.size(); i++)
      q8[layout.q_at(row, i)] = static_cast<std::byte>(x.q[i]);
    for (std::uint32_t b = 0; b < x.d.size(); b++)
      std::memcpy(&q8[layout.scale_at(row, b)], &x.d[b], 4);
    for (std::uint32_t s = 0; s < x.q.size() / 16; s++) {
      std::int32_t sum = 0;
      for (std::size_t j = 0; j < 16; j++) sum += x.q[16 * s + j];
      std::memcpy(&q8[layout.sum_at(row, s)], &sum, 4);
      if (layout.block != 256) continue;
      const std::int32_t factor = x.factors[s / 2];
      if (in_parts) std::memcpy(&q8[layout.factor_at(row, s / 2)], &factor, 4);
      sum *= factor;
      q8[layout.low_sum_at(row, s)] = static_cast<std::byte>(sum & 127);
      q8[layout.high_sum_at(row, s)] = static_cast<std::byte>(sum >> 7);
    }
  }
};

inline aligned_buffer<std::byte> packed(const weight_format& f, std::size_t n, std::size_t k,
                                        const std::vector<std::byte>& stored) {
  aligned_buffer<std::byte> p(packed_bytes(f, n, k), std::byte{0xee});
  pack_rows(f, k, stored, p.span());
  return p;
}

inline std::size_t padded(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace terrane::kernels
