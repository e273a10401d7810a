// logits(): sums of pairs under the store rule, and peaks that a plain search agrees with.
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/ops/ops.hpp"
#include "tests/kernels/contract_reference.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {
namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

struct handed_out {
  aligned_buffer<float> logits, peaks;
};

handed_out hand_out(test_target target, const logits_spec& spec, aligned_buffer<float>& x,
                    std::uint32_t rows) {
  handed_out out{aligned_buffer<float>(rows * spec.stride),
                 aligned_buffer<float>(rows * peaks_of(spec.vocabulary))};
  std::vector<argument_slot> arguments = {x.data(), out.logits.data(), out.peaks.data()};
  run_program(target, logits(spec), arguments, logits_grid(spec, rows));
  return out;
}

float peak(const float* logits, std::uint32_t first, std::uint32_t vocabulary) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::uint32_t i = first; i < std::min(first + logits_of_a_peak, vocabulary); i++)
    largest = std::max(largest, logits[i]);
  return largest;
}

TEST(logits, pairs_are_added_and_every_peak_is_the_largest) {
  constexpr std::uint32_t rows = 3;
  for (test_target target : test_targets())
    for (std::uint32_t vocabulary : {1000U, 1024U, 31U, 288U}) {
      const logits_spec spec{vocabulary, (vocabulary + 31) / 32 * 32, true};
      aligned_buffer<float> x(2 * rows * spec.stride);
      for (std::size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<float>(i * 7919 % 977) * 0.37F - 500;  // all sums are negative
      for (std::uint32_t i = vocabulary; i < spec.stride; i++) x[i] = 1e9F;  // padding counts not
      x[0] = 0x1p-58F;
      x[spec.stride] = -0x1.fp-59F;
      handed_out out = hand_out(target, spec, x, rows);
      for (std::uint32_t r = 0; r < rows; r++) {
        const float* own = &out.logits[r * spec.stride];
        for (std::uint32_t i = 0; i < vocabulary; i++) {
          const std::size_t at = std::size_t{2} * r * spec.stride + i;
          ASSERT_EQ(bits(own[i]), bits(reference::sanit(x[at] + x[at + spec.stride])));
        }
        for (std::uint32_t p = 0; p < peaks_of(vocabulary); p++)
          ASSERT_EQ(bits(out.peaks[r * peaks_of(vocabulary) + p]),
                    bits(peak(own, p * logits_of_a_peak, vocabulary)))
              << "row " << r << ", peak " << p << " of " << vocabulary;
      }
    }
}

TEST(logits, a_peak_says_that_one_is_not_finite) {
  constexpr std::uint32_t vocabulary = 992;
  for (test_target target : test_targets())
    for (float bad : {std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      aligned_buffer<float> x(vocabulary);
      for (std::size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i);
      x[300] = bad;
      handed_out out = hand_out(target, {vocabulary, vocabulary, false}, x, 1);
      EXPECT_EQ(out.peaks[0], 255.0F);
      EXPECT_TRUE(std::isnan(out.peaks[1]));
      EXPECT_EQ(out.peaks[2], 767.0F);
      EXPECT_EQ(out.peaks[3], 991.0F);
      EXPECT_EQ(out.logits[5], 5.0F);
    }
}

}  // namespace
}  // namespace terrane::kernels
