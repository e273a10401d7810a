#include "engine/sampling/scan.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/ops/ops.hpp"

#if defined(__x86_64__)
#define TERRANE_FOR_AVX2 [[gnu::target("avx2")]]
#endif

namespace terrane::engine {

namespace {

constexpr std::size_t logits_of_a_peak = kernels::logits_of_a_peak;

constexpr std::uint32_t size_bits = 0x7fffffffU, infinite = 0x7f800000U;

// What orders finite floats as integers are ordered: compilers take the largest of many integers
// with few instructions. Its own inverse.
[[gnu::always_inline]] inline std::int32_t ordered(std::int32_t bits) {
  return bits ^ ((bits >> 31) & static_cast<std::int32_t>(size_bits));
}

// The peak of some logits; `sizes` takes in the largest size of one, as bits.
[[gnu::always_inline]] inline float peak_of(const float* logits, std::size_t count,
                                            std::uint32_t& sizes) {
  std::int32_t largest = INT32_MIN;
  std::uint32_t size = 0;
  for (std::size_t k = 0; k < count; k++) {
    const auto bits = std::bit_cast<std::int32_t>(logits[k]);
    largest = std::max(largest, ordered(bits));
    size = std::max(size, static_cast<std::uint32_t>(bits) & size_bits);
  }
  sizes = std::max(sizes, size);
  return std::bit_cast<float>(ordered(largest));
}

[[gnu::always_inline]] inline bool find_all(std::span<const float> logits, float* peaks) {
  std::uint32_t sizes = 0;
  const std::size_t whole = logits.size() / logits_of_a_peak;
  for (std::size_t n = 0; n < whole; n++)
    peaks[n] = peak_of(&logits[n * logits_of_a_peak], logits_of_a_peak, sizes);
  const std::size_t rest = logits.size() % logits_of_a_peak;
  if (rest != 0) peaks[whole] = peak_of(&logits[whole * logits_of_a_peak], rest, sizes);
  return sizes < infinite;
}

#if defined(__x86_64__)
TERRANE_FOR_AVX2 bool find_all_by_avx2(std::span<const float> logits, float* peaks) {
  return find_all(logits, peaks);
}
#endif

}  // namespace

bool find_peaks(std::span<const float> logits, std::vector<float>& peaks) {
  peaks.resize((logits.size() + logits_of_a_peak - 1) / logits_of_a_peak);
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return find_all_by_avx2(logits, peaks.data());
#endif
  return find_all(logits, peaks.data());
}

}  // namespace terrane::engine
