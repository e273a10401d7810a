#include "engine/sampling/contract_exp.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

// The generator of test inputs and the hash of the numeric contract, as specified with it.
std::uint32_t hash32(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

float input(std::uint32_t i) {  // in [-90, 90)
  constexpr std::uint32_t stream = 19;
  const std::uint32_t r = hash32(i ^ hash32(stream * 0x9E3779B9U + 0x1234567U));
  const float unit = static_cast<float>(r >> 8) * 1.1920928955078125e-07F - 1.0F;
  return unit * 90.0F;
}

std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
  z = (z ^ z >> 27) * 0x94D049BB133111EBU;
  return z ^ z >> 31;
}

TEST(contract_exp, has_the_reference_hash) {
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < 1U << 24; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(contract_exp(input(i)));
    hash += mix64(bits + (std::uint64_t{i} + 1) * 0x9E3779B97F4A7C15U);
  }
  EXPECT_EQ(hash, 0xE6369AF571D4FC60U);
}

TEST(contract_exp, is_exact_at_zero_and_clamped_outside) {
  EXPECT_EQ(contract_exp(0.0F), 1.0F);
  EXPECT_EQ(contract_exp(-0.0F), 1.0F);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(contract_exp(-infinity), contract_exp(-86.0F));
  EXPECT_EQ(contract_exp(infinity), contract_exp(88.0F));
  EXPECT_GT(contract_exp(-infinity), std::numeric_limits<float>::min());
  EXPECT_LT(contract_exp(infinity), infinity);
}

TEST(contract_exp, is_within_an_ulp) {
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const float x = std::fmax(std::fmin(input(i), 88.0F), -86.0F);
    const double exact = std::exp(static_cast<double>(x));
    const float found = contract_exp(x);
    const double ulp =
        static_cast<double>(std::nextafter(found, std::numeric_limits<float>::infinity()) - found);
    ASSERT_LE(std::fabs(static_cast<double>(found) - exact), ulp) << x;
  }
}

}  // namespace
}  // namespace terrane::engine
