#include "engine/sampling/draw.hpp"

#include "kernels/mix_bits.hpp"

namespace terrane::engine {

double draw_uniform(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
  const std::uint64_t bits = mix_bits(mix_bits(seed + golden) + (position + 1) * golden);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace terrane::engine
