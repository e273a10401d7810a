// The contract's exponential on the host, where the sampler uses it.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/contract/host.hpp"
#include "kernels/contract/selftest.hpp"
#include "tests/kernels/contract_inputs.hpp"

namespace terrane::kernels {
namespace {

float input(std::uint32_t i) {  // in [-90, 90)
  constexpr std::uint32_t stream = 19;
  const std::uint32_t r = reference::random_word(stream, i, 0);
  const float unit = static_cast<float>(r >> 8) * 1.1920928955078125e-07F - 1.0F;
  return unit * 90.0F;
}

TEST(host_exp, has_the_reference_hash) {
  std::vector<std::uint32_t> words(1U << 24);
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    words[i] = std::bit_cast<std::uint32_t>(contract::exp(input(i)));
  }
  EXPECT_EQ(contract_hash(words, true), 0xE6369AF571D4FC60U);
}

TEST(host_exp, is_clamped_outside) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(contract::exp(-infinity), contract::exp(-86.0F));
  EXPECT_EQ(contract::exp(infinity), contract::exp(88.0F));
  EXPECT_GT(contract::exp(-infinity), std::numeric_limits<float>::min());
  EXPECT_LT(contract::exp(infinity), infinity);
}

TEST(host_exp, is_within_an_ulp) {
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const float x = std::fmax(std::fmin(input(i), 88.0F), -86.0F);
    const double exact = std::exp(static_cast<double>(x));
    const float found = contract::exp(x);
    const double ulp =
        static_cast<double>(std::nextafter(found, std::numeric_limits<float>::infinity()) - found);
    ASSERT_LE(std::fabs(static_cast<double>(found) - exact), ulp) << x;
  }
}

}  // namespace
}  // namespace terrane::kernels
