// Subtraction of amounts that cannot be negative. Pure; any thread.
#pragma once

#include <cstdint>

namespace terrane::policies {

// What is left of an amount once another is taken of it; nothing where that is more.
constexpr std::uint64_t subtract_saturating(std::uint64_t amount, std::uint64_t taken) {
  return taken < amount ? amount - taken : 0;
}

}  // namespace terrane::policies
