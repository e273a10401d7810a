// The contract's input generator in the kernel language: hashed counters made into numbers with
// chosen exponents. For the self-test's programs only.
#pragma once

#include <functional>

#include "kernels/lang/builder.hpp"

namespace terrane::kernels::contract {

val hash32(val x);

// Word `k` of item `i` in a stream.
val random_word(std::uint32_t stream, val i, val k);
val random_word(std::uint32_t stream, val i, std::uint32_t k);

// The sign and mantissa of r; the exponent uniform in [low, high].
val with_exponent(val r, int low, int high);
val with_exponent(val r, val low, std::uint32_t exponents);  // [low, low + exponents)
val positive(val x);                                         // |x|

val unit_interval(val r);          // [-1, 1), a multiple of 2^-23
val activations(val r);            // four int8 of [-127, 127]
val half_scale(val r, bool sign);  // an f16 scale as f32, one in 16 a denormal half

// A program with a lane an input: body(i) gives input i's word.
program word_per_lane(const char* name, const std::function<val(builder& b, val i)>& body);

// The input's index for a workgroup an input.
val group_index(builder& b);

// Groups side by side in x before y counts; lanes of 32 inputs each for word_per_lane.
inline constexpr std::uint32_t groups_in_x = 1024;

}  // namespace terrane::kernels::contract
