// Formats whose codes of 4 bits stand for the values of a table: IQ4_NL, IQ4_XS, MXFP4.
//
// Their values have signs, and weights go unsigned through tile_dot: a kernel takes value + offset
// as an unsigned byte, and the offset comes off again by the sums of the activations, as that of
// Q4_0 does. Both are integers, so nothing is rounded.
#pragma once

#include <array>

#include "kernels/formats/segment.hpp"

namespace terrane::kernels {

struct code_table {
  std::array<std::int8_t, 16> values;
  int offset_bits;  // the offset is 1 << offset_bits: no value is below -offset
  int bits;         // of a byte that values + offset use

  std::uint32_t unsigned_value(std::size_t code) const {
    return static_cast<std::uint32_t>(values[code] + (1 << offset_bits));
  }
};

// The values of IQ4_NL and IQ4_XS: ggml's kvalues_iq4nl.
inline constexpr code_table iq4_table = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 7, 8};

// Words of four values + offset each, from words of four codes, one a byte.
vals look_up(builder& b, const code_table& table, const vals& codes);

// The value of one code (i32, 0..15), as i32 with its sign.
val look_up_one(builder& b, const code_table& table, val code);

}  // namespace terrane::kernels
