// Every weight format: packing, the row sums of linear() and the values of embedding(), equal to
// the bits of plain C++ that reads the stored blocks.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "kernels/formats/finite.hpp"
#include "kernels/formats/format.hpp"
#include "tests/kernels/linear_rows.hpp"

namespace terrane::kernels {
namespace {

using reference::bits;

// Finite f16 bits: mostly moderate, some denormal, some zero.
std::uint16_t random_half(std::mt19937& random) {
  std::uint32_t r = random(), sign = r & 0x8000u;
  if (r >> 28 == 0) return static_cast<std::uint16_t>(sign | ((r >> 16) & 0x3ffu));
  if (r >> 28 == 1) return static_cast<std::uint16_t>(sign);
  return static_cast<std::uint16_t>(sign | (0x1000u + (r >> 16) % 0x1800u));
}

void put_half(std::byte* at, std::mt19937& random) {
  std::uint16_t h = random_half(random);
  std::memcpy(at, &h, 2);
}

// A row of stored blocks with random integers and finite numbers.
std::vector<std::byte> random_rows(const weight_format& f, std::size_t n, std::size_t k,
                                   std::mt19937& random) {
  std::size_t blocks = n * k / f.block_elements;
  std::vector<std::byte> stored(blocks * f.block_bytes);
  std::string name = f.name;
  for (std::size_t b = 0; b < blocks; b++) {
    std::byte* p = stored.data() + b * f.block_bytes;
    for (std::size_t i = 0; i < f.block_bytes; i++) p[i] = static_cast<std::byte>(random());
    if (name == "F16")
      for (int i = 0; i < 32; i++) put_half(p + 2 * i, random);
    else if (name == "F32" || name == "BF16")
      for (int i = 0; i < 32; i++) {
        // Exponents from below the store rule's bound to moderate.
        std::uint32_t r = random(), e = 127 - 66 + r % 70;
        std::uint32_t w = (random() & 0x807fffffu) | e << 23;
        if (name == "F32")
          std::memcpy(p + 4 * i, &w, 4);
        else
          std::memcpy(p + 2 * i, reinterpret_cast<std::byte*>(&w) + 2, 2);
      }
    else if (name == "MXFP4")
      p[0] = static_cast<std::byte>(60 + random() % 80);  // from below the store rule's bound
    else if (name == "Q6_K")
      put_half(p + 208, random);
    else if (name == "Q3_K")
      put_half(p + 108, random);
    else if (name == "Q2_K") {
      put_half(p + 80, random);
      put_half(p + 82, random);
    } else {
      put_half(p, random);
      if (name == "Q4_1" || name == "Q5_1" || name == "Q4_K" || name == "Q5_K")
        put_half(p + 2, random);
    }
  }
  return stored;
}

// Rows of activations: random, all zero, tiny, huge, one spike; parts of a block that differ much
// in size, one of them zero, with the largest element negative.
std::vector<float> random_activations(std::size_t k, std::size_t kind, std::mt19937& random) {
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<float> x(k);
  for (float& v : x) v = reference::sanit(unit(random) * (kind % 6 == 3 ? 1e4f : 1.0f));
  if (kind % 6 == 1) std::fill(x.begin(), x.end(), 0.0f);
  if (kind % 6 == 2)
    for (float& v : x) v = reference::sanit(v * 0x1p-58f);
  if (kind % 6 == 4) x[k / 2] = 1000.0f;
  if (kind % 6 == 5 || kind == 0) {
    for (std::size_t i = 0; i < k; i++) x[i] *= static_cast<float>(i / 32 % 8) / 7;
    x[k - 1] = -1.5f;
  }
  return x;
}

std::vector<std::vector<float>> random_rows_of_activations(std::size_t rows, std::size_t k,
                                                           std::mt19937& random) {
  std::vector<std::vector<float>> all;
  for (std::size_t r = 0; r < rows; r++) all.push_back(random_activations(k, r, random));
  return all;
}

// One matrix of n rows against `rows` tokens, on one target, for one way to share the work.
void check_linear(test_target target, const weight_format& f, std::size_t n, std::size_t k,
                  std::uint32_t columns, int warps, int together = 1, int row_warps = 1,
                  std::uint32_t rows_together = 1, bool in_parts = false) {
  SCOPED_TRACE(std::string(f.name) + " n " + std::to_string(n) + " k " + std::to_string(k) +
               " columns " + std::to_string(columns) + " warps " + std::to_string(warps) +
               " together " + std::to_string(together) + " row warps " + std::to_string(row_warps) +
               " rows together " + std::to_string(rows_together) + (in_parts ? " in parts" : ""));
  std::mt19937 random(static_cast<std::uint32_t>(n * 31 + k + columns));
  std::size_t rows = columns == 1 ? 2 : columns + 1, row_space = padded(rows, columns);
  std::vector<std::byte> stored = random_rows(f, n, k, random);
  aligned_buffer<std::byte> weights = packed(f, n, k, stored);
  activation_rows x(random_rows_of_activations(rows, k, random), row_space, k,
                    f.block_elements == 256 ? 256 : 32, rows_together, in_parts);
  linear_spec spec{.k = static_cast<std::uint32_t>(k),
                   .matrices = {{&f, static_cast<std::uint32_t>(n), 32}},
                   .output_stride = static_cast<std::uint32_t>(padded(n, 32) + 64),
                   .rows_together = rows_together,
                   .in_parts = in_parts,
                   .columns = columns,
                   .warps = warps,
                   .row_warps = row_warps,
                   .together = together};
  aligned_buffer<float> out(row_space * spec.output_stride, -7.0f);
  std::vector<argument_slot> arguments = {x.q8.data(),     x.f16.data(),    x.f32.data(),
                                          out.data(),      argument_slot(), weights.data(),
                                          argument_slot(), argument_slot(), x.q8.data()};
  run_program(target, linear(spec), arguments, linear_grid(spec, static_cast<std::uint32_t>(rows)));
  std::size_t row_bytes = k / f.block_elements * f.block_bytes;
  for (std::size_t r = 0; r < rows; r++) {
    ASSERT_EQ(out[r * spec.output_stride + 31], -7.0f) << "written before the offset";
    ASSERT_EQ(out[r * spec.output_stride + 32 + padded(n, 32)], -7.0f) << "written past the rows";
    for (std::size_t i = 0; i < n; i++) {
      float expected = reference::sanit(
          reference::row_sum(f, stored.data() + i * row_bytes, k, x.quantised[r], x.floats[r]));
      ASSERT_EQ(bits(out[r * spec.output_stride + 32 + i]), bits(expected))
          << "row " << i << " token " << r << ": " << out[r * spec.output_stride + 32 + i]
          << " not " << expected;
    }
  }
}

TEST(formats, linear_equals_plain_code_in_every_shape) {
  for (test_target target : test_targets())
    for (const weight_format* f : weight_formats()) {
      std::size_t short_k = f->block_elements == 256 ? 512 : 576;
      for (std::uint32_t columns : {1u, 2u, 4u, 8u})
        for (int warps : {1, 2, 4}) {
          // Compiling takes its time: a few of the shapes on the host.
          if (target == test_target::host && columns * static_cast<unsigned>(warps) != 4) continue;
          check_linear(target, *f, 33, short_k, columns, warps);
        }
      check_linear(target, *f, 33, 1024, 8, 1);
      check_linear(target, *f, 33, short_k, 16, 1, 2);
      check_linear(target, *f, 515, short_k, 1, 1);
    }
}

// Rows of activations side by side, warps that take matrix rows side by side, of which the last
// workgroup has fewer.
TEST(formats, tokens_and_matrix_rows_may_lie_side_by_side) {
  for (test_target target : test_targets())
    for (const weight_format* f : weight_formats()) {
      const std::size_t k = f->block_elements == 256 ? 512 : 576;
      check_linear(target, *f, 66, k, 8, 1, 1, 2, 8);
      if (target == test_target::host) continue;  // compiling takes its time
      check_linear(target, *f, 33, k, 8, 1, 1, 1, 16);
      check_linear(target, *f, 33, k, 16, 2, 1, 1, 64);
      check_linear(target, *f, 33, k, 32, 1, 1, 4, 32);
    }
}

// Blocks of 256 rounded in parts.
TEST(formats, activations_may_be_rounded_in_parts) {
  for (test_target target : test_targets())
    for (const weight_format* f : weight_formats()) {
      if (f->block_elements != 256) continue;
      check_linear(target, *f, 33, 512, 8, 1, 1, 1, 1, true);
      check_linear(target, *f, 33, 512, 1, 2, 1, 1, 1, true);
      if (target == test_target::host) continue;  // compiling takes its time
      check_linear(target, *f, 66, 768, 8, 1, 1, 2, 8, true);
      check_linear(target, *f, 33, 512, 16, 1, 2, 1, 64, true);
    }
}

TEST(formats, embedding_gives_the_value_of_every_weight) {
  std::mt19937 random(5);
  for (test_target target : test_targets())
    for (const weight_format* f : weight_formats()) {
      SCOPED_TRACE(f->name);
      std::size_t n = 40, k = f->block_elements == 256 ? 512 : 288;
      std::vector<std::byte> stored = random_rows(*f, n, k, random);
      aligned_buffer<std::byte> weights = packed(*f, n, k, stored);
      std::vector<std::int32_t> tokens = {0, 39, 31, 32, 7};
      aligned_buffer<float> out(tokens.size() * k);
      std::vector<argument_slot> arguments = {weights.data(), tokens.data(), out.data()};
      auto k32 = static_cast<std::uint32_t>(k);
      run_program(target, embedding(*f, k32, 3.0f), arguments, embedding_grid(k32, 5));
      std::size_t row_bytes = k / f->block_elements * f->block_bytes;
      for (std::size_t r = 0; r < tokens.size(); r++)
        for (std::size_t e = 0; e < k; e++) {
          const std::byte* row = stored.data() + static_cast<std::size_t>(tokens[r]) * row_bytes;
          reference::block b =
              reference::read_block(f->name, row + e / f->block_elements * f->block_bytes);
          float expected =
              reference::sanit(reference::value(b, static_cast<int>(e % f->block_elements)) * 3.0f);
          ASSERT_EQ(bits(out[r * k + e]), bits(expected))
              << "token " << tokens[r] << " element " << e;
        }
    }
}

TEST(formats, matrices_of_several_formats_share_a_launch) {
  std::mt19937 random(9);
  const weight_format &a = *find_weight_format(12), &c = *find_weight_format(14);
  for (test_target target : test_targets())
    for (int warps : {1, 2}) {
      std::size_t k = 512, rows = 3;
      std::vector<std::size_t> n = {64, 33, 32};
      std::vector<const weight_format*> f = {&a, &c, &a};
      std::vector<std::vector<std::byte>> stored;
      std::vector<aligned_buffer<std::byte>> weights;
      linear_spec spec{.k = 512,
                       .matrices = {},
                       .output_stride = 160,
                       .add_residual = true,
                       .columns = 2,
                       .warps = warps};
      std::uint32_t offset = 0;
      for (std::size_t i = 0; i < 3; i++) {
        stored.push_back(random_rows(*f[i], n[i], k, random));
        weights.push_back(packed(*f[i], n[i], k, stored[i]));
        spec.matrices.push_back({f[i], static_cast<std::uint32_t>(n[i]), offset});
        offset += static_cast<std::uint32_t>(padded(n[i], 32));
      }
      activation_rows x(random_rows_of_activations(rows, k, random), 4, k, 256);
      aligned_buffer<float> out(4 * 160);
      for (std::size_t i = 0; i < out.size(); i++) out[i] = static_cast<float>(i) * 0.25f;
      std::vector<argument_slot> arguments = {
          x.q8.data(),       x.f16.data(),      x.f32.data(),      out.data(), out.data(),
          weights[0].data(), weights[1].data(), weights[2].data(), x.q8.data()};
      run_program(target, linear(spec), arguments, linear_grid(spec, 3));
      for (std::size_t i = 0; i < 3; i++) {
        std::size_t row_bytes = k / f[i]->block_elements * f[i]->block_bytes;
        for (std::size_t r = 0; r < rows; r++)
          for (std::size_t j = 0; j < n[i]; j++) {
            std::size_t at = r * 160 + spec.matrices[i].offset + j;
            float sum = reference::row_sum(*f[i], stored[i].data() + j * row_bytes, k,
                                           x.quantised[r], x.floats[r]);
            float expected = reference::sanit(static_cast<float>(at) * 0.25f + sum);
            ASSERT_EQ(bits(out[at]), bits(expected)) << "matrix " << i << " row " << j;
          }
      }
    }
}

TEST(formats, more_segments_than_shared_memory_holds_are_folded_in_batches) {
  // 8 columns, 2 warps: 16 segments at a time; K has 20.
  for (test_target target : test_targets())
    check_linear(target, *find_weight_format(8), 32, 5120, 8, 2);
}

TEST(formats, blocks_taken_together_need_not_divide_a_row) {
  for (test_target target : test_targets())
    for (const char* name : {"Q4_1", "Q8_0", "MXFP4"})
      for (const weight_format* f : weight_formats())
        if (std::string(name) == f->name)
          for (std::size_t k : {96, 288, 352}) check_linear(target, *f, 33, k, 8, 1, 4);
}

TEST(formats, a_row_may_be_one_short_segment) {
  for (test_target target : test_targets())
    for (const char* name : {"F32", "F16", "Q4_1", "Q8_0", "IQ4_NL", "MXFP4"})
      for (const weight_format* f : weight_formats())
        if (std::string(name) == f->name) {
          check_linear(target, *f, 1, 32, 1, 2);
          check_linear(target, *f, 33, 96, 2, 1);
        }
}

// A block's scales, and the numbers of float formats, by their stored bytes.
TEST(formats, numbers_that_are_not_finite_are_found) {
  std::mt19937 random(3);
  for (const weight_format* f : weight_formats()) {
    SCOPED_TRACE(f->name);
    std::size_t k = f->block_elements == 256 ? 512 : 96, blocks = k / f->block_elements;
    std::vector<std::byte> stored = random_rows(*f, 5, k, random);
    EXPECT_FALSE(find_not_finite(*f, k, stored).has_value());
    // The last number of row 3, block 1: all bits of its exponent, and of its fraction where that
    // is all there is.
    std::size_t bytes = f->numbers.kind == number_kind::f32    ? 4
                        : f->numbers.kind == number_kind::e8m0 ? 1
                                                               : 2;
    std::byte* at = stored.data() + (3 * blocks + 1) * f->block_bytes + f->numbers.source_offset +
                    (f->numbers.count - 1) * bytes;
    std::uint32_t infinite = f->numbers.kind == number_kind::f32    ? 0x7f800000u
                             : f->numbers.kind == number_kind::f16  ? 0xfc00u
                             : f->numbers.kind == number_kind::bf16 ? 0x7f80u
                                                                    : 0xffu;
    std::memcpy(at, &infinite, bytes);
    std::optional<not_finite_number> found = find_not_finite(*f, k, stored);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->row, 3u);
    EXPECT_EQ(found->block, 1u);
    EXPECT_EQ(found->index, f->numbers.count - 1);
    bool has_infinity = f->numbers.kind != number_kind::e8m0;
    EXPECT_EQ(found->value.starts_with("infinite"), has_infinity) << found->value;
    *at |= std::byte{1};
    EXPECT_TRUE(find_not_finite(*f, k, stored)->value.starts_with("not a number"));
  }
}

TEST(formats, a_scale_of_mxfp4_obeys_the_store_rule) {
  const weight_format& f = *find_weight_format(39);
  std::vector<std::byte> stored(32 * f.block_bytes, std::byte{0x11});
  const int exponents[] = {0, 1, 68, 69, 128, 254, 255}, fields[] = {0, 0, 0, 68, 127, 253, 255};
  for (std::size_t r = 0; r < 7; r++)
    stored[r * f.block_bytes] = static_cast<std::byte>(exponents[r]);
  aligned_buffer<std::byte> weights = packed(f, 32, 32, stored);
  for (std::size_t r = 0; r < 7; r++)
    EXPECT_EQ(static_cast<int>(weights[warp_lanes * 16 + r]), fields[r]) << exponents[r];
}

TEST(formats, names_and_types_are_unique) {
  EXPECT_EQ(find_weight_format(9999), nullptr);
  for (const weight_format* f : weight_formats()) {
    EXPECT_EQ(find_weight_format(f->ggml_type), f);
    EXPECT_NE(weight_format_names().find(f->name), std::string::npos);
    std::uint32_t bytes = 0;
    for (const packed_plane& p : f->planes) bytes += p.bytes;
    EXPECT_EQ(bytes, f->block_bytes) << f->name;
  }
}

}  // namespace
}  // namespace terrane::kernels
