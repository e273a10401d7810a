// Made-up numbers to run kernels on: finite, of ordinary size, the same at every call. Internal to
// engine/tuning. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops/ops.hpp"

namespace terrane::engine {

// n numbers between -1 and 1 whose f16 is exact.
std::vector<float> made_up_floats(std::size_t n);
// n f16 numbers between -1 and 1, none denormal.
std::vector<std::uint16_t> made_up_halves(std::size_t n);
// Quantised rows of k elements in blocks of `block`, those of 256 in parts, as q8_row_layout says.
std::vector<std::byte> made_up_q8_rows(std::uint32_t k, std::uint32_t block, std::uint32_t rows,
                                       std::uint32_t rows_together);
// Packed weights of 32 rows of k elements: packed_group_bytes() of them.
std::vector<std::byte> made_up_weights(const kernels::weight_format& format, std::uint32_t k);
// What fills memory that is read for its time alone: no number of any format that it may be taken
// for is denormal, infinite or none.
inline constexpr std::byte plain_byte{0x2c};

}  // namespace terrane::engine
