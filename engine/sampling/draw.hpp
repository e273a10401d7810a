// The random number of a token. Counter-based: it follows from a seed and a position alone, so a
// reply that is resumed, moved or recovered draws again what it drew before. Pure; any thread.
#pragma once

#include <cstdint>

namespace terrane::engine {

// Uniform in [0, 1), a multiple of 2^-53.
double draw_uniform(std::uint64_t seed, std::uint64_t position);

}  // namespace terrane::engine
