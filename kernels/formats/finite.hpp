// Finds numbers that are not finite in stored weights: one infinite scale makes 32 or 256 weights
// infinite, and every logit after them. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "kernels/formats/format.hpp"

namespace terrane::kernels {

struct not_finite_number {
  std::uint64_t row = 0;    // of those given
  std::uint64_t block = 0;  // in the row
  std::uint32_t index = 0;  // among the block's numbers of this kind
  std::string value;        // "infinite (stored as 0x7c00)"
};

// The first one in rows of k elements, `stored.size()` a whole number of rows.
std::optional<not_finite_number> find_not_finite(const weight_format& format, std::uint64_t k,
                                                 std::span<const std::byte> stored);

}  // namespace terrane::kernels
