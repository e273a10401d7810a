#include "engine/sampling/contract_exp.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace terrane::engine {

// One rounding per operation, in this order (the build forbids contraction). x = n*ln 2 + r, with
// ln 2 in two parts; a polynomial of degree 5 for e^r; n goes into the exponent.
float contract_exp(float x) {
  constexpr float round_magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to integer
  const float bounded = std::max(std::min(x, 88.0F), -86.0F);
  const float shifted = bounded * 1.44269504F + round_magic;
  const float n = shifted - round_magic;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = (p * (r * r) + r) + 1.0F;
  const auto exponent = std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + (exponent << 23));
}

}  // namespace terrane::engine
