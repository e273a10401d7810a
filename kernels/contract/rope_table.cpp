#include "kernels/contract/rope_table.hpp"

#include <bit>
#include <initializer_list>
#include <numeric>

#include "kernels/contract/host.hpp"

namespace terrane::kernels {

namespace {

constexpr double round_shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to integer

std::uint64_t bits(double d) { return std::bit_cast<std::uint64_t>(d); }
double from_bits(std::uint64_t b) { return std::bit_cast<double>(b); }

// 1/x for normal x > 0: an integer seed, six Newton steps.
double reciprocal(double x) {
  double r = from_bits(0x7fde6238502484baull - bits(x));
  for (int step = 0; step < 5; step++) {
    double e = 2.0 - x * r;
    r = r * e;
  }
  double e = 1.0 - x * r;
  return r + r * e;
}

// For normal x > 0: ln m = 2 atanh((m - 1)/(m + 1)) by its series.
double log2_of(double x) {
  std::uint64_t b = bits(x);
  int exponent = static_cast<int>(b >> 52) - 1023;
  double m = from_bits((b & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    exponent++;
  }
  double s = (m - 1.0) * reciprocal(m + 1.0), z = s * s, p = 1.0 / 23.0;
  for (double odd = 21.0; odd >= 3.0; odd -= 2.0) p = p * z + 1.0 / odd;
  return (s + s * (z * p)) * 2.8853900817779268 + static_cast<double>(exponent);  // 2/ln 2
}

// 2^y for -1000 < y < 1000: the series of e^g to 1/13!.
double exp2_of(double y) {
  double n = (y + round_shift) - round_shift, g = (y - n) * 0.6931471805599453;
  constexpr double factorials[] = {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0,
                                   720.0,       120.0,      24.0,      6.0,      2.0,     1.0};
  double p = 1.0 / 6227020800.0;
  for (double factorial : factorials) p = p * g + 1.0 / factorial;
  p = p * g + 1.0;
  return p * from_bits(static_cast<std::uint64_t>(1023 + static_cast<std::int64_t>(n)) << 52);
}

struct angle {
  double sine, cosine;
};

// For 0 <= a < 2^24. pi/2 in three parts, the first two of 29 bits, so that their products with the
// quadrant's number are exact; then polynomials on [-pi/4, pi/4].
angle sine_and_cosine(double a) {
  double t = a * 0.6366197723675814 + round_shift, n = t - round_shift;
  double r = a - n * 1.570796325802803;
  r = r - n * 9.920935774287987e-10;
  r = r - n * 2.2517417741562176e-18;
  double z = r * r;
  double p = 1.58969099521155010221e-10;
  for (double c :
       {-2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
        8.33333333332248946124e-03, -1.66666666666666324348e-01})
    p = p * z + c;
  double q = -1.13596475577881948265e-11;
  for (double c :
       {2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
        -1.38888888888741095749e-03, 4.16666666666666019037e-02})
    q = q * z + c;
  double s = r + r * (z * p), h = 0.5 * z, c = 1.0 - (h - z * (z * q));
  switch (bits(t) & 3u) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

double stretched(const rope_llama3_rule& rule, double f) {
  double turns = rule.original_context * f * 0.15915494309189535;  // 1/(2 pi)
  if (turns > rule.high_frequency_factor) return f;
  double slow = f * reciprocal(rule.factor);
  if (turns < rule.low_frequency_factor) return slow;
  double w = (turns - rule.low_frequency_factor) *
             reciprocal(rule.high_frequency_factor - rule.low_frequency_factor);
  return (1.0 - w) * slow + w * f;
}

// The turning rate of pair i: theta^(-2i/rotated), then what the model changes in it.
double frequency(const rope_parameters& p, std::uint32_t i) {
  double t = static_cast<double>(2 * i) * reciprocal(static_cast<double>(p.rotated));
  double f = exp2_of(-(t * log2_of(p.theta)));
  if (p.linear_factor != 1) f = f * reciprocal(p.linear_factor);
  if (p.llama3) f = stretched(*p.llama3, f);
  if (!p.factors.empty()) f = f * reciprocal(static_cast<double>(p.factors[i]));
  return f;
}

}  // namespace

std::vector<double> rope_frequencies(const rope_parameters& parameters) {
  std::vector<double> frequencies(parameters.rotated / 2);
  for (std::uint32_t i = 0; i < frequencies.size(); i++) frequencies[i] = frequency(parameters, i);
  return frequencies;
}

std::vector<float> rope_table(const rope_parameters& parameters,
                              std::span<const std::uint32_t> positions) {
  std::vector<double> frequencies = rope_frequencies(parameters);
  std::vector<float> table;
  table.reserve(positions.size() * parameters.rotated);
  for (std::uint32_t position : positions) {
    for (double f : frequencies) {
      angle a = sine_and_cosine(static_cast<double>(position) * f);
      table.push_back(contract::store_rule(static_cast<float>(a.cosine)));
      table.push_back(contract::store_rule(static_cast<float>(a.sine)));
    }
  }
  return table;
}

std::vector<float> rope_table(const rope_parameters& parameters, std::uint32_t count) {
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0u);
  return rope_table(parameters, positions);
}

}  // namespace terrane::kernels
