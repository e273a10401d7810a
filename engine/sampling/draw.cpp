#include "engine/sampling/draw.hpp"

namespace terrane::engine {
namespace {

// splitmix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

double draw_uniform(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
  const std::uint64_t bits = mix(mix(seed + golden) + (position + 1) * golden);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace terrane::engine
