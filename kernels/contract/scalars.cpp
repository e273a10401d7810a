#include "kernels/contract/scalars.hpp"

#include <initializer_list>

namespace terrane::kernels::contract {

namespace {

constexpr std::uint32_t smallest_stored = 0x21800000u;  // 2^-60
constexpr float round_shift = 12582912.0f;              // 1.5 * 2^23: adding it rounds to integer
constexpr std::uint32_t round_shift_bits = 0x4b400000u;

val f(val like, float x) { return like.owner().f32(x); }
val u(val like, std::uint32_t x) { return like.owner().u32(x); }
// Exact for every x, zeros included: -0 - x.
val minus(val x) { return f(x, -0.0f) - x; }

}  // namespace

val bits(val x) { return x.owner().unary(opcode::float_to_bits, x); }
val as_float(val i) { return i.owner().unary(opcode::bits_to_float, i); }
val magnitude_bits(val x) { return bits(x) & u(x, 0x7fffffffu); }

val store_rule(val x) {
  return x.owner().select(ult(magnitude_bits(x), u(x, smallest_stored)), f(x, 0.0f), x);
}

val round_to_f16(val x) {
  builder& b = x.owner();
  return b.half_number(b.unary(opcode::f2h, x));
}

val round_integral(val x) { return (x + f(x, round_shift)) - f(x, round_shift); }
val round_to_int(val x) { return bits(x + f(x, round_shift)) - u(x, round_shift_bits); }

// exp() of -86 to 88.
static val exp_in_range(val x) {
  val shifted = x * f(x, 1.44269504f) + f(x, round_shift);  // log2(e)
  val n = shifted - f(x, round_shift);
  val exponent = bits(shifted) - u(x, round_shift_bits);
  // r = x - n ln 2, with ln 2 in two parts
  val r = (x - n * f(x, 0.693359375f)) - n * f(x, -2.12194440e-4f);
  val p = f(x, 1.9875691500e-4f);
  for (float coefficient :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = p * r + f(x, coefficient);
  val y = (p * (r * r) + r) + f(x, 1.0f);
  return as_float(bits(y) + (exponent << 23));
}

val exp(val x0) {
  builder& b = x0.owner();
  val x = b.select(lt(x0, f(x0, -86.0f)), f(x0, -86.0f), x0);
  x = b.select(lt(f(x, 88.0f), x), f(x, 88.0f), x);
  return exp_in_range(x);
}

val rcp(val x) {
  val magnitude = magnitude_bits(x), sign = bits(x) & u(x, 0x80000000u);
  val ax = as_float(magnitude), r = as_float(u(x, 0x7ef311c3u) - magnitude);
  for (int step = 0; step < 3; step++) r = r * (f(x, 2.0f) - ax * r);
  val e = f(x, 1.0f) - ax * r;
  return as_float(bits(r + r * e) | sign);
}

val rsqrt(val x) {
  val y = as_float(u(x, 0x5f3759dfu) - lshr(bits(x), 1)), half = x * f(x, 0.5f);
  for (int step = 0; step < 3; step++) y = y * (f(x, 1.5f) - (half * y) * y);
  return y + y * (f(x, 0.5f) - (half * y) * y);
}

val sigmoid(val x) {
  val z = minus(x);
  z = x.owner().select(lt(f(x, 40.0f), z), f(x, 40.0f), z);
  return rcp(f(x, 1.0f) + exp(z));
}

val silu(val x) { return x * sigmoid(x); }

val gelu(val x) {
  val inner = x * (f(x, 0.044715f) * (x * x) + f(x, 1.0f));
  return x * sigmoid(f(x, 1.5957691216057308f) * inner);
}

val tanh(val x) { return f(x, 1.0f) - f(x, 2.0f) * sigmoid(f(x, -2.0f) * x); }

val int_to_float(val v) {
  builder& b = v.owner();
  val high = b.unary(opcode::i2f, ashr(v, 12)) * f(v, 4096.0f);
  return high + b.unary(opcode::i2f, v & u(v, 4095));
}

quantisation quantise_block(val amax_bits) {
  builder& b = amax_bits.owner();
  val zero_block = ult(amax_bits, u(amax_bits, smallest_stored));
  // 1 stands in for a zero block's amax, so that rcp stays in range.
  val amax = b.select(zero_block, f(amax_bits, 1.0f), as_float(amax_bits));
  val scale = amax * f(amax, 7.874015718698501587e-03f);  // 1/127
  val inverse = f(amax, 127.0f) * rcp(amax);
  val zero = f(amax, 0.0f);
  return {b.select(zero_block, zero, scale), b.select(zero_block, zero, inverse)};
}

part_quantisation quantise_part(const quantisation& block, val amax_bits) {
  builder& b = amax_bits.owner();
  constexpr float most = most_factor;
  // The part's largest element in eighths of the block's, up unless it is above by next to nothing:
  // 127 steps and a bit round to 127. Bounds are for what is not finite.
  val eighths = (as_float(amax_bits) * block.inverse) * f(amax_bits, most / 127.0f);
  val factor = round_to_int(eighths + f(amax_bits, 0.499f));
  factor = smin(smax(factor, b.i32(1)), b.i32(most_factor));
  // rcp is exact for powers of two.
  val finer = f(amax_bits, most) * rcp(b.unary(opcode::i2f, factor));
  return {factor, {block.scale * f(amax_bits, 1.0f / most), block.inverse * finer}};
}

val quantise(val x, const quantisation& block) { return round_to_int(x * block.inverse); }

// The difference is never positive, and below -40 its exp is not used.
val score_weight(val score, val maximum) {
  val d = score - maximum;
  return d.owner().select(lt(d, f(d, -40.0f)), f(d, 0.0f), exp_in_range(d));
}

val mix(val x, val a, val y, val b) { return x * a + y * b; }

// Its own inverse: the bits below the sign are flipped where the sign is set.
static val flip_negative(val i) { return i ^ (ashr(i, 31) & u(i, 0x7fffffffu)); }
val order_bits(val x) { return flip_negative(bits(x)); }
val from_order_bits(val i) { return as_float(flip_negative(i)); }

val rotate(val first, val own, val partner, val cosine, val sine) {
  val turned = own * cosine, other = partner * sine;
  return store_rule(own.owner().select(first, turned - other, turned + other));
}

val rms_factor(val sum_of_squares, float inverse_n, float eps) {
  return rsqrt(sum_of_squares * f(sum_of_squares, inverse_n) + f(sum_of_squares, eps));
}

val rms_element(val x, val factor, val weight) { return store_rule((x * factor) * weight); }

}  // namespace terrane::kernels::contract
