// The numeric contract in plain C++, one number at a time: what the kernel tests compare with.
// Written from the contract's text, apart from kernels/contract; needs -ffp-contract=off.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace terrane::reference {

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float number(std::uint32_t b) { return std::bit_cast<float>(b); }

inline float sanit(float x) { return std::fabs(x) < 0x1p-60f ? 0.0f : x; }

inline float half_to_float(std::uint32_t h) {
  std::uint32_t exponent = (h >> 10) & 31u, fraction = h & 1023u;
  if (exponent == 31) return number((h & 0x8000u) << 16 | 0x7f800000u | fraction << 13);
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                   : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
  return static_cast<float>((h & 0x8000u) != 0 ? -magnitude : magnitude);
}

// Nearest even, by scaling in double; not for NaN.
inline std::uint32_t float_to_half(float x) {
  std::uint32_t sign = std::signbit(x) ? 0x8000u : 0;
  double a = std::fabs(static_cast<double>(x));
  if (a == 0) return sign;
  if (a >= 65520.0) return sign | 0x7c00u;
  int exponent = std::max(std::ilogb(a), -14);
  auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  // steps is in [1024, 2048] for normal halves: adding it carries into the exponent.
  return sign | (static_cast<std::uint32_t>(exponent + 14) * 1024u + steps);
}
inline float f16(float x) { return half_to_float(float_to_half(x)); }

inline float exp(float x) {
  x = std::fmin(std::fmax(x, -86.0f), 88.0f);
  float n = std::nearbyint(x * 1.44269504f);
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  float y = p * (r * r);
  y = y + r;
  y = y + 1.0f;
  return std::ldexp(y, static_cast<int>(n));
}

inline float rcp(float x) {
  float a = std::fabs(x), r = number(0x7ef311c3u - bits(a));
  r = r * (2.0f - a * r);
  r = r * (2.0f - a * r);
  r = r * (2.0f - a * r);
  float e = 1.0f - a * r;
  return std::copysign(r + r * e, x);
}

inline float rsqrt(float x) {
  float y = number(0x5f3759dfu - (bits(x) >> 1)), h = x * 0.5f;
  y = y * (1.5f - (h * y) * y);
  y = y * (1.5f - (h * y) * y);
  y = y * (1.5f - (h * y) * y);
  return y + y * (0.5f - (h * y) * y);
}

inline float silu(float x) { return x * rcp(1.0f + exp(std::fmin(-x, 40.0f))); }

// The tanh form.
inline float gelu(float x) {
  float cubic = 0.044715f * (x * x);
  float inner = x * (cubic + 1.0f);
  return x * rcp(1.0f + exp(std::fmin(-(1.5957691216057308f * inner), 40.0f)));
}

inline float score_weight(float s, float m) {
  float d = s - m;
  return d < -40.0f ? 0.0f : exp(d);
}

// A quantised activation row. Element k stands for q * factor of its 32 * d.
struct quantised {
  std::uint32_t block;
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<int> factors;  // of each 32 elements; 1 unless rounded in parts
};
inline float largest_magnitude(const std::vector<float>& x, std::size_t first, std::size_t count) {
  float amax = 0;
  for (std::size_t k = 0; k < count; k++) amax = std::fmax(amax, std::fabs(x[first + k]));
  return amax;
}

// Blocks of 256 in parts of 32: a part whose largest element is at most f eighths of the block's
// has steps of f eighths; "at most" within a thousandth of an eighth.
inline quantised quantise_in_parts(const std::vector<float>& x) {
  quantised r{256, {}, {}, {}};
  for (std::size_t first = 0; first < x.size(); first += 256) {
    const float amax = largest_magnitude(x, first, 256);
    const bool zero = amax < 0x1p-60f;
    const float d = zero ? 0.0f : amax * (1.0f / 127.0f), id = zero ? 0.0f : 127.0f * rcp(amax);
    r.d.push_back(d / 8);
    for (std::size_t part = first; part < first + 256; part += 32) {
      const float eighths = (largest_magnitude(x, part, 32) * id) * (8.0f / 127.0f);
      const int factor =
          std::min(8, std::max(1, static_cast<int>(std::nearbyint(eighths + 0.499f))));
      const float finer = id * (8.0f * rcp(static_cast<float>(factor)));
      r.factors.push_back(factor);
      for (std::size_t k = part; k < part + 32; k++)
        r.q.push_back(static_cast<std::int8_t>(std::nearbyint(x[k] * finer)));
    }
  }
  return r;
}

inline quantised quantise(const std::vector<float>& x, std::uint32_t block) {
  quantised r{block, {}, {}, std::vector<int>(x.size() / 32, 1)};
  for (std::size_t first = 0; first < x.size(); first += r.block) {
    const float amax = largest_magnitude(x, first, block);
    bool zero = amax < 0x1p-60f;
    r.d.push_back(zero ? 0.0f : amax * (1.0f / 127.0f));
    float id = zero ? 0.0f : 127.0f * rcp(amax);
    for (std::size_t k = 0; k < r.block; k++)
      r.q.push_back(static_cast<std::int8_t>(std::nearbyint(x[first + k] * id)));
  }
  return r;
}

// The row sum's outer fold.
inline float add_segments(const std::vector<float>& segments) {
  float total = segments[0];
  for (std::size_t s = 1; s < segments.size(); s++) total = total + segments[s];
  return total;
}

}  // namespace terrane::reference
