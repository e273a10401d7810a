// Sums over a super-block at the ends of what they can be: every target keeps them in int32, and
// the largest reach 98 % of it.
#include <array>
#include <cstdlib>
#include <limits>
#include <random>

#include "tests/kernels/linear_rows.hpp"

namespace terrane::kernels {
namespace {

using reference::bits;

constexpr std::size_t k = 512, rows = 64;

// Where the stored integers lie that are not codes.
struct scale_bytes {
  const char* format;
  std::size_t offset, count;
};
constexpr std::array<scale_bytes, 6> super_block_formats = {{{"Q2_K", 0, 16},
                                                             {"Q3_K", 96, 12},
                                                             {"Q4_K", 4, 12},
                                                             {"Q5_K", 4, 12},
                                                             {"Q6_K", 192, 16},
                                                             {"IQ4_XS", 2, 6}}};

const weight_format& format_of(const scale_bytes& scales) {
  for (const weight_format* f : weight_formats())
    if (std::string(scales.format) == f->name) return *f;
  std::abort();
}

// Rows whose codes and scales are the smallest and the largest: all alike in the first eight rows
// (codes of zeros or ones, scales of 0, -1, -128 and 127 where they have signs), by bytes of either
// kind in the others.
std::vector<std::byte> extreme_rows(const weight_format& f, const scale_bytes& scales) {
  constexpr std::array<unsigned, 4> scale_ends = {0x00, 0xff, 0x80, 0x7f};
  std::mt19937 random(17);
  std::vector<std::byte> stored(rows * (k / 256) * f.block_bytes);
  for (std::size_t b = 0; b < stored.size() / f.block_bytes; b++) {
    const std::size_t row = b / (k / 256);
    for (std::size_t i = 0; i < f.block_bytes; i++) {
      const bool is_scale = i >= scales.offset && i < scales.offset + scales.count;
      const std::size_t pick = row < 8 ? row : random() % 8;
      const unsigned byte = is_scale ? scale_ends[pick % 4] : pick / 4 * 0xff;
      stored[b * f.block_bytes + i] = static_cast<std::byte>(byte);
    }
    for (std::size_t n = 0; n < f.numbers.count; n++) {
      const std::uint16_t d = static_cast<std::uint16_t>(0x3800u + (row << 4) + n);  // about 0.5
      std::memcpy(&stored[b * f.block_bytes + f.numbers.source_offset + 2 * n], &d, 2);
    }
  }
  return stored;
}

// Rows whose integers are -127 or 127 everywhere, with every factor: constant, signs that alternate
// by elements and by parts, at random; then parts of one eighth to eight eighths.
std::vector<std::vector<float>> extreme_activations() {
  std::mt19937 random(18);
  std::vector<std::vector<float>> all;
  for (int kind = 0; kind < 10; kind++) {
    std::vector<float> x(k);
    for (std::size_t i = 0; i < k; i++) {
      const std::array<bool, 5> negative = {false, true, i % 2 == 1, i / 32 % 2 == 1,
                                            random() % 2 == 1};
      x[i] = negative[static_cast<std::size_t>(kind % 5)] ? -1.0f : 1.0f;
      if (kind >= 5) x[i] *= static_cast<float>(i / 32 % 8 + 1) / 8;
    }
    all.push_back(x);
  }
  return all;
}

TEST(formats_bounds, activations_at_the_ends_have_the_largest_integers_and_every_factor) {
  const std::vector<std::vector<float>> all = extreme_activations();
  for (std::size_t r = 0; r < all.size(); r++) {
    const reference::quantised x = reference::quantise_in_parts(all[r]);
    for (std::int8_t q : x.q) EXPECT_EQ(std::abs(q), 127);
    for (std::size_t part = 0; part < x.factors.size(); part++)
      EXPECT_EQ(x.factors[part], r < 5 ? 8 : static_cast<int>(part % 8) + 1);
  }
}

// The largest |sum of sc * f * (code * x)| over a super-block and over its starts, with codes as
// kernels take them: unsigned, before an offset comes off.
std::int64_t largest_sum(const weight_format& f, const scale_bytes& scales) {
  const int raised = std::string(f.name) == "Q6_K" ? 32 : 0;  // others take it off each product
  const std::vector<std::byte> stored = extreme_rows(f, scales);
  std::int64_t largest = 0;
  for (const std::vector<float>& floats : extreme_activations()) {
    const reference::quantised x = reference::quantise_in_parts(floats);
    for (std::size_t b = 0; b < stored.size() / f.block_bytes; b++) {
      const reference::block block = reference::read_block(f.name, &stored[b * f.block_bytes]);
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < 256; i++) {
        sum += std::int64_t{block.sc[i / (256 / block.sc.size())]} * x.factors[i / 32] *
               ((block.q[i] + raised) * x.q[i]);
        largest = std::max(largest, std::abs(sum));
      }
    }
  }
  return largest;
}

TEST(formats_bounds, no_sum_leaves_int32) {
  for (const scale_bytes& scales : super_block_formats)
    EXPECT_LE(largest_sum(format_of(scales), scales), std::numeric_limits<std::int32_t>::max())
        << scales.format;
  // Q6_K is the nearest: 97.7 %. A factor of 9, or a bit more anywhere, has no room.
  EXPECT_EQ(largest_sum(format_of(super_block_formats[4]), super_block_formats[4]),
            std::int64_t{256} * 63 * 128 * 127 * 8);
}

// What runs a program: the interpreter, or machine code for a processor (empty: this one).
using runner = std::function<void(const program&, std::span<const argument_slot>, grid)>;

void check_extremes(const runner& run, const scale_bytes& scales, std::uint32_t columns,
                    int warps) {
  const weight_format& f = format_of(scales);
  SCOPED_TRACE(std::string(f.name) + " columns " + std::to_string(columns));
  const std::vector<std::byte> stored = extreme_rows(f, scales);
  aligned_buffer<std::byte> weights = packed(f, rows, k, stored);
  const std::size_t tokens = extreme_activations().size(), space = padded(tokens, columns);
  activation_rows x(extreme_activations(), space, k, 256, 1, true);
  linear_spec spec{.k = k, .matrices = {{&f, rows, 0}}, .output_stride = rows, .in_parts = true};
  spec.columns = columns;
  spec.warps = warps;
  aligned_buffer<float> out(space * rows);
  const std::vector<argument_slot> arguments = {argument_slot(), argument_slot(), argument_slot(),
                                                out.data(),      argument_slot(), weights.data(),
                                                argument_slot(), argument_slot(), x.q8.data()};
  run(linear(spec), arguments, linear_grid(spec, static_cast<std::uint32_t>(tokens)));
  const std::size_t row_bytes = k / 256 * f.block_bytes;
  for (std::size_t t = 0; t < tokens; t++)
    for (std::size_t i = 0; i < rows; i++) {
      const float expected = reference::sanit(
          reference::row_sum(f, &stored[i * row_bytes], k, x.quantised[t], x.floats[t]));
      ASSERT_EQ(bits(out[t * rows + i]), bits(expected)) << "row " << i << " token " << t;
    }
}

void check_all_formats(const runner& run, std::uint32_t columns) {
  for (const scale_bytes& scales : super_block_formats) {
    check_extremes(run, scales, 1, 2);
    check_extremes(run, scales, columns, 1);
  }
}

TEST(formats_bounds, the_interpreter_is_exact_at_the_ends) {
  check_all_formats([](const program& p, std::span<const argument_slot> arguments,
                       grid g) { interpret(p, argument_bits(arguments), g.x, g.y); },
                    16);
}

TEST(formats_bounds, this_processor_is_exact_at_the_ends) {
  check_all_formats([](const program& p, std::span<const argument_slot> arguments,
                       grid g) { run_host_code(host_code(p), p, arguments, g); },
                    16);  // by AMX, where it has that
}

#if defined(__x86_64__)
// By vpmaddubsw, which saturates, instead of vpdpbusd; by 16-bit products where that is too narrow.
TEST(formats_bounds, the_instructions_of_lesser_processors_are_exact_at_the_ends) {
  if (!__builtin_cpu_supports("x86-64-v3")) GTEST_SKIP() << "this host has fewer instructions";
  auto compiler = host_compiler::make(nullptr, "x86-64-v3");
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  check_all_formats(
      [&](const program& p, std::span<const argument_slot> arguments, grid g) {
        auto code = (*compiler)->compile(p);
        ASSERT_TRUE(code.has_value()) << code.error().message;
        run_host_code(*code, p, arguments, g);
      },
      2);
}
#endif

}  // namespace
}  // namespace terrane::kernels
