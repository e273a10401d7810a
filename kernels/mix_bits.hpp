// splitmix64's finaliser (Steele, Lea, Flood 2014): every bit of the result depends on every bit of
// the argument. Hashes of logits, of the self-test's words and the sampler's draws are made of it.
// Pure; any thread.
#pragma once

#include <cstdint>

namespace terrane {

constexpr std::uint64_t mix_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace terrane
