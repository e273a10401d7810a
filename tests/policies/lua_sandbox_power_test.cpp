// Powers, exponentials and logarithms: right, exact where they can be, and the same bits
// everywhere.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "policies/lua/library_power.hpp"

namespace terrane::policies::lua {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Reproducible numbers (a 64-bit linear congruential generator, Knuth's constants).
class numbers {
 public:
  double between(double low, double high) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (static_cast<double>(state_ >> 11) * 0x1p-53);
  }

 private:
  std::uint64_t state_ = 42;
};

// Distance in units of the last place.
double units_apart(double a, double b) {
  if (a == b) return 0;
  return std::fabs(a - b) / (std::nextafter(std::fabs(b), infinity) - std::fabs(b));
}

TEST(lua_sandbox_power, is_exact_where_the_value_is_a_double) {
  double expected = 1;
  for (int n = 0; n <= 22; ++n, expected *= 10) EXPECT_EQ(exact_power(10, n), expected) << n;
  for (int n = -1074; n <= 1023; ++n) EXPECT_EQ(exact_power(2, n), std::ldexp(1.0, n)) << n;
  expected = 1;
  for (int n = 0; n <= 33; ++n, expected *= 3) EXPECT_EQ(exact_power(3, n), expected) << n;
  for (int n = 1; n < 2000; ++n) EXPECT_EQ(exact_power(1.0 * n * n, 0.5), n);
  EXPECT_EQ(exact_power(27, 1.0 / 3), std::cbrt(27.0));
  EXPECT_EQ(exact_power(1.5, 2), 2.25);
  EXPECT_EQ(exact_power(-3, 3), -27);
  EXPECT_EQ(exact_power(-3, 2), 9);
}

TEST(lua_sandbox_power, agrees_with_the_c_library_within_its_error) {
  numbers random;
  for (int i = 0; i < 20000; ++i) {
    const double base = std::exp(random.between(-20, 20));
    const double exponent = random.between(-30, 30);
    ASSERT_LE(units_apart(exact_power(base, exponent), std::pow(base, exponent)), 1)
        << base << " ^ " << exponent;
    const double x = random.between(-700, 700);
    ASSERT_LE(units_apart(exact_exp(x), std::exp(x)), 1) << x;
    ASSERT_LE(units_apart(exact_log(base), std::log(base)), 1) << base;
    ASSERT_LE(units_apart(exact_log2(base), std::log2(base)), 1) << base;
    const double near_one = 1 + random.between(-1e-3, 1e-3);
    ASSERT_LE(units_apart(exact_log(near_one), std::log(near_one)), 1) << near_one;
  }
}

TEST(lua_sandbox_power, follows_c_at_the_edges) {
  const double values[] = {0.0,     -0.0,       1,     -1,     2,        -2,           3,
                           -3,      0.5,        -0.5,  1.5,    infinity, -infinity,    0x1p60,
                           -0x1p60, 0x1p-60,    1e300, -1e300, 1e-300,   std::nan(""), 5e-324,
                           0x1p53,  0x1p53 + 2, 1024,  -1074.5};
  for (const double base : values) {
    for (const double exponent : values) {
      const double expected = std::pow(base, exponent);
      const double got = exact_power(base, exponent);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << base << " ^ " << exponent;
      } else {
        EXPECT_LE(units_apart(got, expected), 1) << base << " ^ " << exponent;
        EXPECT_EQ(std::signbit(got), std::signbit(expected)) << base << " ^ " << exponent;
      }
    }
  }
  EXPECT_EQ(exact_exp(-infinity), 0);
  EXPECT_EQ(exact_exp(infinity), infinity);
  EXPECT_EQ(exact_log(0), -infinity);
  EXPECT_TRUE(std::isnan(exact_log(-1)));
}

// A digest of many results, computed once on x86-64. Another machine must find the same.
TEST(lua_sandbox_power, has_the_same_bits_on_every_machine) {
  std::uint64_t digest = 14695981039346656037u;
  const auto add = [&digest](double value) {
    digest = (digest ^ std::bit_cast<std::uint64_t>(value)) * 1099511628211u;
  };
  numbers random;
  for (int i = 0; i < 10000; ++i) {
    const double base = random.between(0, 1000);
    add(exact_power(base, random.between(-50, 50)));
    add(exact_exp(random.between(-700, 700)));
    add(exact_log(base));
    add(exact_log2(base));
  }
  EXPECT_EQ(digest, 13602941502536764134u);
}

}  // namespace
}  // namespace terrane::policies::lua
