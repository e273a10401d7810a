// The contract's scalars for the host: the sampler and whatever else computes outside a kernel.
// The same bits as kernels/contract/scalars.hpp gives on a device. Needs -ffp-contract=off and the
// default floating-point environment. Pure functions; any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace terrane::kernels::contract {

// |x| < 2^-60 becomes +0.
inline float store_rule(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7fffffffu) < 0x21800000u ? 0.0f : x;
}

// e^x, x clamped to [-86, 88]. exp(0) is exactly 1.
inline float exp(float x) {
  if (x < -86.0f) x = -86.0f;
  if (x > 88.0f) x = 88.0f;
  float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
  std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  for (float coefficient :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = p * r + coefficient;
  float y = (p * (r * r) + r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + (exponent << 23));
}

// 1/x for 2^-100 <= |x| <= 2^100.
inline float rcp(float x) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(x), magnitude = b & 0x7fffffffu;
  float ax = std::bit_cast<float>(magnitude), r = std::bit_cast<float>(0x7ef311c3u - magnitude);
  for (int step = 0; step < 3; step++) r = r * (2.0f - ax * r);
  float e = 1.0f - ax * r;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(r + r * e) | (b & 0x80000000u));
}

}  // namespace terrane::kernels::contract
