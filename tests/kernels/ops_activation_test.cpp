// activation() and gather_rows(): norms, SwiGLU and quantised rows, equal to the bits of plain
// code.
#include <random>

#include <gtest/gtest.h>

#include "tests/kernels/contract_reference.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {
namespace {

using reference::bits;

// Random, zero, below the store rule's bound once squared, huge, with a spike, of runs of 32 that
// differ much in size.
std::vector<float> random_row(std::size_t n, std::size_t kind, std::mt19937& random) {
  std::uniform_real_distribution<float> unit(-1, 1);
  constexpr float scales[] = {1.0f, 0.0f, 0x1p-55f, 0x1p40f, 3.0f, 1.0f};
  std::vector<float> x(n);
  for (float& v : x) v = reference::sanit(unit(random) * scales[kind % 6]);
  if (kind % 6 == 4) x[n / 3] = 12345.0f;
  for (std::size_t i = 0; kind % 6 == 5 && i < n; i++)
    x[i] *= static_cast<float>(i / 32 % 8) * 0.25f;
  return x;
}

std::vector<float> rms_norm(const std::vector<float>& x, const std::vector<float>& w, float eps) {
  std::vector<float> chain(256);
  for (std::size_t i = 0; i < x.size(); i++) chain[i % 256] = chain[i % 256] + x[i] * x[i];
  for (std::size_t s = 128; s > 0; s /= 2)
    for (std::size_t j = 0; j < s; j++) chain[j] = chain[j] + chain[j + s];
  float mean = chain[0] * static_cast<float>(1.0 / static_cast<double>(x.size()));
  float r = reference::rsqrt(mean + eps);
  std::vector<float> y;
  for (std::size_t i = 0; i < x.size(); i++) y.push_back(reference::sanit((x[i] * r) * w[i]));
  return y;
}

std::vector<float> swiglu(const std::vector<float>& x, std::size_t k, std::size_t up) {
  std::vector<float> y;
  for (std::size_t i = 0; i < k; i++)
    y.push_back(reference::sanit(reference::silu(x[i]) * x[up + i]));
  return y;
}

std::vector<float> geglu(const std::vector<float>& x, std::size_t k, std::size_t up) {
  std::vector<float> y;
  for (std::size_t i = 0; i < k; i++)
    y.push_back(reference::sanit(reference::gelu(x[i]) * x[up + i]));
  return y;
}

void expect_quantised(const std::vector<float>& x, const q8_row_layout& layout,
                      const std::byte* rows, std::uint32_t row, bool in_parts = false) {
  const reference::quantised q =
      in_parts ? reference::quantise_in_parts(x) : reference::quantise(x, layout.block);
  for (std::uint32_t p = 0; in_parts && p < x.size() / 32; p++) {
    std::int32_t factor;
    std::memcpy(&factor, rows + layout.factor_at(row, p), 4);
    ASSERT_EQ(factor, q.factors[p]) << "part " << p;
  }
  for (std::uint32_t i = 0; i < x.size(); i++)
    ASSERT_EQ(static_cast<std::int8_t>(rows[layout.q_at(row, i)]), q.q[i]) << "element " << i;
  for (std::uint32_t b = 0; b < q.d.size(); b++) {
    float d;
    std::memcpy(&d, rows + layout.scale_at(row, b), 4);
    ASSERT_EQ(bits(d), bits(q.d[b])) << "block " << b;
  }
  for (std::uint32_t s = 0; s < x.size() / 16; s++) {
    std::int32_t sum, exact = 0;
    std::memcpy(&sum, rows + layout.sum_at(row, s), 4);
    for (std::size_t j = 0; j < 16; j++) exact += q.q[16 * s + j];
    ASSERT_EQ(sum, exact) << "sum " << s;
    if (layout.block != 256) continue;
    const auto low = static_cast<std::uint8_t>(rows[layout.low_sum_at(row, s)]);
    const auto high = static_cast<std::int8_t>(rows[layout.high_sum_at(row, s)]);
    ASSERT_EQ(128 * high + low, exact * q.factors[s / 2]) << "bytes of sum " << s;
    ASSERT_LT(low, 128) << "sum " << s;
  }
}

void check_activation(test_target target, activation_source source, std::size_t k, int warps,
                      std::uint32_t parts = 1, std::uint32_t together = 1, bool in_parts = false) {
  SCOPED_TRACE("source " + std::to_string(static_cast<int>(source)) + " k " + std::to_string(k) +
               " warps " + std::to_string(warps) + " parts " + std::to_string(parts) +
               " together " + std::to_string(together));
  std::mt19937 random(static_cast<std::uint32_t>(k));
  std::size_t rows = 6, up = k + 32, stride = 2 * k + 64;
  activation_spec spec{
      .source = source,
      .k = static_cast<std::uint32_t>(k),
      .input_stride = static_cast<std::uint32_t>(stride),
      .up_offset = static_cast<std::uint32_t>(up),
      .eps = 1e-5f,
      .outputs = {.q8_by_32 = true, .q8_by_256 = k % 256 == 0, .f16 = true, .f32 = true},
      .rows_together = together,
      .in_parts = in_parts,
      .warps = warps,
      .parts = parts};
  const q8_row_layout fine(spec.k, 32, together), coarse(spec.k, 256, together);
  const std::size_t tiles = (rows + together - 1) / together;
  aligned_buffer<float> x(rows * stride), w(k), halves(rows * k), floats(rows * k);
  aligned_buffer<std::byte> by_32(tiles * fine.tile_bytes, std::byte{0x55});
  aligned_buffer<std::byte> by_256(tiles * coarse.tile_bytes, std::byte{0x55});
  std::vector<float> weight = random_row(k, 0, random);
  std::copy(weight.begin(), weight.end(), w.data());
  std::vector<std::vector<float>> expected;
  for (std::size_t r = 0; r < rows; r++) {
    std::vector<float> row = random_row(stride, r, random);
    std::copy(row.begin(), row.end(), x.data() + r * stride);
    std::vector<float> head(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(k));
    expected.push_back(source == activation_source::rms_norm ? rms_norm(head, weight, spec.eps)
                       : source == activation_source::swiglu ? swiglu(row, k, up)
                       : source == activation_source::geglu  ? geglu(row, k, up)
                                                             : head);
  }
  std::vector<argument_slot> arguments = {x.data(),      w.data(),      by_32.data(),
                                          halves.data(), floats.data(), by_256.data()};
  run_program(target, activation(spec), arguments, activation_grid(spec, 6));
  for (std::size_t r = 0; r < rows; r++) {
    for (std::size_t i = 0; i < k; i++) {
      ASSERT_EQ(bits(floats[r * k + i]), bits(expected[r][i])) << "row " << r << " element " << i;
      ASSERT_EQ(bits(halves[r * k + i]), bits(reference::f16(expected[r][i]))) << r << " " << i;
    }
    const auto row = static_cast<std::uint32_t>(r);
    expect_quantised(expected[r], fine, by_32.data(), row);
    if (k % 256 == 0) expect_quantised(expected[r], coarse, by_256.data(), row, in_parts);
  }
}

TEST(activation, equals_plain_code_for_every_source_and_number_of_warps) {
  for (test_target target : test_targets())
    for (auto source : {activation_source::plain, activation_source::rms_norm,
                        activation_source::swiglu, activation_source::geglu})
      for (std::size_t k : {32, 96, 576, 1024, 1536})
        for (int warps : {1, 2, 4, 8}) {
          // Compiling takes its time: a few of the shapes on the host.
          bool tried = warps == 8 || (warps == 2 && k == 576) || (warps == 1 && k == 1024);
          if (target == test_target::interpreter || tried)
            check_activation(target, source, k, warps);
        }
}

// Also where the last workgroup has less to do than the others, or nothing.
TEST(activation, a_row_may_be_shared_by_workgroups) {
  for (test_target target : test_targets())
    for (auto source : {activation_source::rms_norm, activation_source::swiglu})
      for (std::size_t k : {576, 1536})
        for (std::uint32_t parts : {2u, 5u, 20u})
          for (int warps : {4, 8})
            if (target == test_target::interpreter || parts == 5)
              check_activation(target, source, k, warps, parts);
}

// Row r as 2r, what rounding it has left as 2r + 1; together they are as good as fifteen bits.
void check_pairs(test_target target, std::size_t k, std::uint32_t block, std::uint32_t together,
                 std::uint32_t parts, int warps = 2) {
  SCOPED_TRACE("k " + std::to_string(k) + " block " + std::to_string(block) + " together " +
               std::to_string(together) + " parts " + std::to_string(parts));
  std::mt19937 random(static_cast<std::uint32_t>(k));
  constexpr std::size_t rows = 6;
  activation_spec spec{.source = activation_source::plain,
                       .k = static_cast<std::uint32_t>(k),
                       .input_stride = static_cast<std::uint32_t>(k),
                       .outputs = {.q8_by_32 = block == 32, .q8_by_256 = block == 256},
                       .rows_together = together,
                       .in_pairs = true,
                       .warps = warps,
                       .parts = parts};
  const q8_row_layout layout(spec.k, block, together);
  aligned_buffer<float> x(rows * k);
  aligned_buffer<std::byte> out((2 * rows + together - 1) / together * layout.tile_bytes);
  std::vector<std::vector<float>> given;
  for (std::size_t r = 0; r < rows; r++) {
    given.push_back(random_row(k, r, random));
    std::copy(given[r].begin(), given[r].end(), x.data() + r * k);
  }
  std::vector<argument_slot> arguments = {x.data(),        argument_slot(), out.data(),
                                          argument_slot(), argument_slot(), out.data()};
  run_program(target, activation(spec), arguments, activation_grid(spec, rows));
  for (std::uint32_t r = 0; r < rows; r++) {
    const reference::quantised first = reference::quantise(given[r], block);
    std::vector<float> rest;
    for (std::size_t i = 0; i < k; i++) {
      const float rounded = static_cast<float>(first.q[i]) * first.d[i / block];
      rest.push_back(reference::sanit(given[r][i] - rounded));
      EXPECT_LE(std::fabs(rest[i]), 0.501f * first.d[i / block]);
    }
    expect_quantised(given[r], layout, out.data(), 2 * r);
    expect_quantised(rest, layout, out.data(), 2 * r + 1);
  }
}

TEST(activation, blocks_may_be_rounded_in_parts) {
  for (test_target target : test_targets())
    for (auto source : {activation_source::plain, activation_source::geglu}) {
      check_activation(target, source, 1024, 2, 1, 1, true);
      check_activation(target, source, 768, 4, 2, 4, true);
      check_activation(target, source, 768, 8, 3, 4, true);
      check_activation(target, source, 1280, 8, 2, 1, true);
    }
}

// The least factor by which the integers fit, met exactly where the largest elements are eighths;
// a row of equal parts is the block's own rounding.
TEST(activation, parts_have_the_finest_steps_that_fit) {
  std::vector<float> x(512, 0.0f);
  for (std::size_t part = 0; part < 8; part++) {
    x[32 * part + part] = -static_cast<float>(part + 1) / 8;
    x[32 * part + 31] = 0.01f;
  }
  const reference::quantised uneven = reference::quantise_in_parts(x);
  for (std::size_t part = 0; part < 8; part++) {
    EXPECT_EQ(uneven.factors[part], static_cast<int>(part + 1));
    EXPECT_EQ(uneven.q[32 * part + part], -127);
  }
  std::mt19937 random(7);
  for (std::size_t kind = 0; kind < 6; kind++) {
    const std::vector<float> row = random_row(512, kind, random);
    for (std::int8_t q : reference::quantise_in_parts(row).q) EXPECT_NE(q, -128);
  }
  for (std::size_t i = 0; i < 512; i++) x[i] = static_cast<float>(i % 32) - 16.0f;
  const reference::quantised even = reference::quantise_in_parts(x),
                             whole = reference::quantise(x, 256);
  EXPECT_EQ(even.q, whole.q);
  for (std::size_t b = 0; b < 2; b++) EXPECT_EQ(8 * even.d[b], whole.d[b]);
  for (int factor : even.factors) EXPECT_EQ(factor, 8);
}

TEST(activation, rows_may_come_in_pairs_of_what_is_rounded_and_what_that_left) {
  for (test_target target : test_targets())
    for (std::uint32_t block : {32u, 256u}) {
      check_pairs(target, 512, block, 1, 1);
      check_pairs(target, 768, block, 4, 2);
      check_pairs(target, 768, block, 1, 3, 8);
      if (block == 32) check_pairs(target, 576, block, 1, 1);
    }
}

TEST(activation, writes_only_what_is_asked_for) {
  for (test_target target : test_targets()) {
    activation_spec spec{.source = activation_source::plain,
                         .k = 64,
                         .input_stride = 64,
                         .outputs = {.f32 = true},
                         .warps = 2};
    aligned_buffer<float> x(64, 1.5f), out(64);
    std::vector<argument_slot> arguments = {x.data(), argument_slot(), argument_slot(),
                                            argument_slot(), out.data()};
    run_program(target, activation(spec), arguments, activation_grid(spec, 1));
    for (float v : out.span()) ASSERT_EQ(v, 1.5f);
  }
}

TEST(activation, rows_may_lie_together) {
  for (test_target target : test_targets())
    for (std::size_t k : {576, 1536})
      for (std::uint32_t together : {4u, 8u})
        for (std::uint32_t parts : {1u, 5u})
          if (target == test_target::interpreter || parts == 1)
            check_activation(target, activation_source::plain, k, 4, parts, together);
}

// Every place of a buffer belongs to one number of one row.
TEST(activation, places_of_quantised_rows_do_not_overlap) {
  for (std::uint32_t k : {32u, 576u, 1024u, 4096u})
    for (std::uint32_t together : {1u, 8u}) {
      const q8_row_layout layout(k, k % 256 == 0 ? 256 : 32, together);
      EXPECT_EQ(layout.row_bytes() % 64, 0u);
      std::vector<int> taken(2 * layout.tile_bytes);
      auto take = [&](std::size_t at, std::size_t bytes) {
        ASSERT_LE(at + bytes, taken.size());
        ASSERT_EQ(at % bytes, 0u);
        for (std::size_t b = at; b < at + bytes; b++) ASSERT_EQ(taken[b]++, 0) << "byte " << b;
      };
      for (std::uint32_t row = 0; row < 2 * together; row++) {
        for (std::uint32_t i = 0; i < k; i++) take(layout.q_at(row, i), 1);
        for (std::uint32_t i = 0; i < k / layout.block; i++) take(layout.scale_at(row, i), 4);
        for (std::uint32_t i = 0; i < k / 16; i++) take(layout.sum_at(row, i), 4);
        for (std::uint32_t i = 0; layout.block == 256 && i < k / 16; i++) {
          take(layout.low_sum_at(row, i), 1);
          take(layout.high_sum_at(row, i), 1);
        }
        for (std::uint32_t i = 0; layout.block == 256 && i < k / 32; i++)
          take(layout.factor_at(row, i), 4);
      }
    }
}

TEST(activation, a_tile_of_rows_holds_the_columns_of_every_kernel) {
  for (std::uint32_t rows = 1; rows <= 512; rows++) {
    const std::uint32_t together = rows_together(rows);
    EXPECT_TRUE(rows < 8 ? together == 1 : together >= 8 && together <= 64) << rows;
    for (std::uint32_t columns = 8; rows >= 8 && columns <= 64 && rows % columns == 0; columns *= 2)
      EXPECT_EQ(together % columns, 0u) << rows << " rows, " << columns << " columns";
  }
}

TEST(add_normalised, equals_plain_code) {
  for (test_target target : test_targets())
    for (std::size_t k : {32, 256, 576, 640})
      for (int warps : {1, 2, 8}) {
        SCOPED_TRACE("k " + std::to_string(k) + " warps " + std::to_string(warps));
        std::mt19937 random(static_cast<std::uint32_t>(k));
        constexpr std::size_t rows = 5;
        aligned_buffer<float> x(rows * k), w(k), hidden(rows * k);
        const std::vector<float> weight = random_row(k, 0, random);
        std::copy(weight.begin(), weight.end(), w.data());
        std::vector<float> expected;
        for (std::size_t r = 0; r < rows; r++) {
          const std::vector<float> row = random_row(k, r, random),
                                   before = random_row(k, 0, random);
          std::copy(row.begin(), row.end(), x.data() + r * k);
          std::copy(before.begin(), before.end(), hidden.data() + r * k);
          const std::vector<float> y = rms_norm(row, weight, 1e-6f);
          for (std::size_t i = 0; i < k; i++)
            expected.push_back(reference::sanit(before[i] + y[i]));
        }
        const add_normalised_spec spec{static_cast<std::uint32_t>(k), 1e-6f, warps};
        std::vector<argument_slot> arguments = {x.data(), w.data(), hidden.data()};
        run_program(target, add_normalised(spec), arguments, add_normalised_grid(rows));
        for (std::size_t i = 0; i < rows * k; i++)
          ASSERT_EQ(bits(hidden[i]), bits(expected[i])) << "element " << i;
      }
}

TEST(gather_rows, copies_the_rows_asked_for) {
  for (test_target target : test_targets()) {
    std::size_t k = 576;
    aligned_buffer<float> x(4 * k), out(3 * k);
    for (std::size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i);
    std::vector<std::int32_t> index = {3, 0, 3};
    std::vector<argument_slot> arguments = {x.data(), index.data(), out.data()};
    run_program(target, gather_rows(576), arguments, gather_rows_grid(576, 3));
    for (std::size_t r = 0; r < 3; r++)
      for (std::size_t i = 0; i < k; i++)
        ASSERT_EQ(out[r * k + i], static_cast<float>(static_cast<std::size_t>(index[r]) * k + i));
  }
}

}  // namespace
}  // namespace terrane::kernels
