// The numeric contract's scalar functions, built in the kernel language: each rounds where the
// contract says, in its order, so every target computes the same bits.
//
// All take and give f32 unless said otherwise, uniform or per lane alike. Building a program is the
// builder's matter: one thread per builder.
#pragma once

#include "kernels/lang/builder.hpp"

namespace terrane::kernels::contract {

val bits(val x);            // f32 -> its bits
val as_float(val i);        // bits -> f32
val magnitude_bits(val x);  // the bits of |x|: ordered as integers as |x| is as a number
val store_rule(val x);      // |x| < 2^-60 becomes +0: every tensor element obeys it
val round_to_f16(val x);    // nearest even, as f32
val round_integral(val x);  // nearest even, |x| < 2^22
val round_to_int(val x);    // the same as i32
val exp(val x);             // x clamped to [-86, 88]; exp(0) is exactly 1
val rcp(val x);             // 1/x for 2^-100 <= |x| <= 2^100
val rsqrt(val x);           // 1/sqrt(x) for 2^-100 <= x <= 2^100
val sigmoid(val x);         // rcp(1 + exp(min(-x, 40)))
val silu(val x);            // x * sigmoid(x)
val gelu(val x);            // tanh form: x * sigmoid(1.5957691 x (1 + 0.044715 x^2))
val tanh(val x);            // 1 - 2 sigmoid(-2x); absolute error 2^-23
val int_to_float(val v);    // any i32, one rounding, from two exact halves (equals the i2f op)

// Activation quantisation of one block. `amax_bits` is the largest magnitude_bits in it. A block
// below 2^-60 is all zero, with scale 0.
struct quantisation {
  val scale;    // d = amax * (1/127)
  val inverse;  // id = 127 * rcp(amax), 0 for a zero block
};
quantisation quantise_block(val amax_bits);
val quantise(val x, const quantisation& block);  // i32 in [-127, 127]

// A part of a block with finer steps: `factor` (i32, 1..most_factor) of them are most_factor of
// the block's. The least that keeps q of the part in [-127, 127]; most_factor gives the block's own
// steps, to the bit. `amax_bits` is the part's; the scale is the block's for products of q and
// factor, amax * (1/127) / most_factor.
inline constexpr int most_factor = 8;
struct part_quantisation {
  val factor;
  quantisation steps;
};
part_quantisation quantise_part(const quantisation& block, val amax_bits);

// Attention. The weight of a score against a maximum: exp(s - m), 0 where s - m < -40.
val score_weight(val score, val maximum);
val mix(val x, val a, val y, val b);  // x*a + y*b: two products, one sum
val order_bits(val x);                // i32 ordered (signed) as the floats are
val from_order_bits(val i);           // the reverse

// One element of a rotated pair: `first` (pred) of the pair, its own value, its partner's.
val rotate(val first, val own, val partner, val cosine, val sine);

// RMS norm: the factor of a row from its sum of squares, and an element.
val rms_factor(val sum_of_squares, float inverse_n, float eps);
val rms_element(val x, val factor, val weight);

}  // namespace terrane::kernels::contract
