// Hashes of logits, to show that two replies are the same to the bit. Pure; any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace terrane::engine {

// A finaliser with full avalanche (the constants are splitmix64's).
inline std::uint64_t mix_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Depends on every bit of every logit and on its place. Never 0.
inline std::uint64_t hash_logits(std::span<const float> logits) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < logits.size(); i++) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &logits[i], 4);
    sum += mix_bits(bits + (i + 1) * 0x9e3779b97f4a7c15U);
  }
  return sum == 0 ? 1 : sum;
}

// Of a sequence: depends on the order. 0 combined with 0 stays 0 (nothing was hashed).
inline std::uint64_t combine_hashes(std::uint64_t so_far, std::uint64_t next) {
  return next == 0 ? so_far : mix_bits(so_far * 3 + next);
}

}  // namespace terrane::engine
