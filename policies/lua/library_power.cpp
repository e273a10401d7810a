#include "policies/lua/library_power.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace terrane::policies::lua {
namespace {

// An unevaluated sum of two doubles, the second below half a unit of the first's last place.
// The error-free transformations are Dekker's (1971) and Knuth's.
struct pair {
  double high = 0;
  double low = 0;
};

constexpr pair two_sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

constexpr pair renormalize(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}

// Halves of 26 bits; |a| < 2^996, which holds for all uses here.
constexpr pair split(double a) {
  const double scaled = 134217729.0 * a;
  const double high = scaled - (scaled - a);
  return {high, a - high};
}

constexpr pair two_product(double a, double b) {
  const double product = a * b;
  const pair x = split(a);
  const pair y = split(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

constexpr pair operator+(pair a, pair b) {
  const pair sum = two_sum(a.high, b.high);
  return renormalize(sum.high, sum.low + (a.low + b.low));
}

constexpr pair operator*(pair a, pair b) {
  const pair product = two_product(a.high, b.high);
  return renormalize(product.high, product.low + (a.high * b.low + a.low * b.high));
}

constexpr pair operator/(pair a, pair b) {
  const double first = a.high / b.high;
  const pair product = pair{first, 0} * b;
  const pair rest = a + pair{-product.high, -product.low};
  return renormalize(first, rest.high / b.high);
}

// 1/1 to 1/40.
constexpr auto reciprocals = [] {
  std::array<pair, 41> table{};
  for (int i = 1; i < 41; ++i) table[static_cast<std::size_t>(i)] = pair{1, 0} / pair{1.0 * i, 0};
  return table;
}();

constexpr pair log2_of_e = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
constexpr pair log_of_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// The natural logarithm of m in [sqrt(1/2), sqrt(2)): 2 atanh(s) with s = (m-1)/(m+1), |s| < 0.172.
pair log_of_mantissa(double m) {
  const pair s = two_sum(m, -1) / two_sum(m, 1);
  const pair square = s * s;
  pair sum = reciprocals[39];
  for (int i = 37; i >= 1; i -= 2) sum = sum * square + reciprocals[static_cast<std::size_t>(i)];
  const pair half = s * sum;
  return {2 * half.high, 2 * half.low};
}

// The parts of a positive finite x: x = m * 2^exponent, m in [sqrt(1/2), sqrt(2)).
struct parts {
  double mantissa = 0;
  int exponent = 0;
};

parts parts_of(double x) {
  parts p;
  p.mantissa = std::frexp(x, &p.exponent);
  if (p.mantissa < 0.7071067811865476) {
    p.mantissa *= 2;
    --p.exponent;
  }
  return p;
}

pair log2_of(double x) {
  const parts p = parts_of(x);
  return pair{1.0 * p.exponent, 0} + log_of_mantissa(p.mantissa) * log2_of_e;
}

// 2^t, by Taylor's series of exp on the fraction.
double exp2_of(pair t) {
  if (t.high > 1100) return std::numeric_limits<double>::infinity();
  if (t.high < -1200) return 0;
  const double whole = std::floor(t.high + 0.5);
  const pair u = (pair{t.high - whole, 0} + pair{t.low, 0}) * log_of_2;
  pair sum = {1, 0};
  for (int i = 24; i >= 1; --i) {
    sum = pair{1, 0} + sum * u * reciprocals[static_cast<std::size_t>(i)];
  }
  return std::ldexp(sum.high, static_cast<int>(whole));
}

bool is_whole(double x) { return std::floor(x) == x; }
bool is_odd(double x) { return is_whole(x) && std::fabs(x) < 0x1p53 && std::fmod(x, 2) != 0; }

// The base is zero or infinite, or the exponent infinite.
double power_at_edge(double base, double exponent) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double size = std::fabs(base);
  if (std::isinf(exponent)) {
    if (size == 1) return 1;
    return (size > 1) == (exponent > 0) ? infinity : 0;
  }
  const bool large = (size > 1) == (exponent > 0);
  const double result = large ? infinity : 0;
  return std::signbit(base) && is_odd(exponent) ? -result : result;
}

}  // namespace

double exact_power(double base, double exponent) {
  if (base == 1 || exponent == 0) return 1;
  if (std::isnan(base) || std::isnan(exponent)) return std::numeric_limits<double>::quiet_NaN();
  if (base == 0 || std::isinf(base) || std::isinf(exponent)) return power_at_edge(base, exponent);
  if (base < 0 && !is_whole(exponent)) return std::numeric_limits<double>::quiet_NaN();
  const pair log2 = log2_of(std::fabs(base));
  // Beyond this the result is 0, 1 or infinite; below it the product can be split.
  double size = 0;
  if (std::fabs(exponent) > 0x1p65) {
    const bool large = (log2.high > 0) == (exponent > 0);
    size = log2.high == 0 ? 1 : large ? std::numeric_limits<double>::infinity() : 0;
  } else {
    size = exp2_of(log2 * pair{exponent, 0});
  }
  return base < 0 && is_odd(exponent) ? -size : size;
}

double exact_exp(double x) {
  if (std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
  if (x > 1000) return std::numeric_limits<double>::infinity();
  if (x < -1000) return 0;
  return exp2_of(pair{x, 0} * log2_of_e);
}

double exact_log(double x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (std::isinf(x)) return x;
  const parts p = parts_of(x);
  return (pair{1.0 * p.exponent, 0} * log_of_2 + log_of_mantissa(p.mantissa)).high;
}

double exact_log2(double x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (std::isinf(x)) return x;
  return log2_of(x).high;
}

}  // namespace terrane::policies::lua
