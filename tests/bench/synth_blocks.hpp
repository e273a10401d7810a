// Random tensor bytes that are valid blocks of a format. Every block is a function of a key and its
// index alone (a counter-based generator: no state runs from one block to the next), in integers
// and correctly rounded operations only, so any number of threads on any machine makes the same
// bytes. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/gguf/ggml_type.hpp"

namespace terrane::bench {

// The weights to make: independent, about `deviation` around `mean`. Quantised formats have mean 0.
struct weight_distribution {
  double mean = 0.0;
  double deviation = 1.0;
};

// Is there a generator for the format?
bool can_synthesize(engine::gguf::ggml_type type);

// Fills `out`, a whole number of blocks, with blocks `first_block` onward of the tensor `key`.
void fill_blocks(engine::gguf::ggml_type type, const weight_distribution& weights,
                 std::uint64_t key, std::uint64_t first_block, std::span<std::byte> out);

// 64 random bits, word `index` of stream `key`. (splitmix64: Steele, Lea, Flood 2014.)
inline std::uint64_t random_word(std::uint64_t key, std::uint64_t index) {
  std::uint64_t z = key + (index + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace terrane::bench
