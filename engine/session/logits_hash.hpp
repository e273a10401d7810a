// Hashes of logits, to show that two replies are the same to the bit. Pure; any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/mix_bits.hpp"

namespace terrane::engine {

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
