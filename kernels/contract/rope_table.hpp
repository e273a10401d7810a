// The table of a rotary position embedding, made once on the host and uploaded.
//
// Only double multiplications and additions, one rounding each in a fixed order, then one to f32:
// every host makes the same bits. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace terrane::kernels {

// How Llama 3.1 and later stretch the low frequencies ("llama3" in a model's configuration).
struct rope_llama3_rule {
  double factor = 8, low_frequency_factor = 1, high_frequency_factor = 4;
  double original_context = 8192;
};

struct rope_parameters {
  double theta = 10000;       // the base of the frequencies
  std::uint32_t rotated = 0;  // elements of a head that turn; even
  // What changes a frequency, in this order; a file gives at most one as a rule.
  double linear_factor = 1;  // divides every frequency
  std::optional<rope_llama3_rule> llama3;
  std::vector<float> factors;  // rotated/2 divisors from the file (rope_freqs); or empty
};

// The turning rates of the rotated/2 pairs, in radians a position.
std::vector<double> rope_frequencies(const rope_parameters& parameters);

// f32 [position][rotated/2](cos, sin) at the given positions (below 2^24), store rule applied.
std::vector<float> rope_table(const rope_parameters& parameters,
                              std::span<const std::uint32_t> positions);
// The same for positions 0 .. count-1.
std::vector<float> rope_table(const rope_parameters& parameters, std::uint32_t count);

}  // namespace terrane::kernels
