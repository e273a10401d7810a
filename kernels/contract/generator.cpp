#include "kernels/contract/generator.hpp"

#include "kernels/contract/scalars.hpp"

namespace terrane::kernels::contract {

namespace {
val constant(val like, std::uint32_t x) { return like.owner().u32(x); }
val remainder(val a, val b) { return a.owner().binary(opcode::iurem, a, b); }
}  // namespace

val hash32(val x) {
  x = x ^ lshr(x, 16);
  x = x * constant(x, 0x7feb352du);
  x = x ^ lshr(x, 15);
  x = x * constant(x, 0x846ca68bu);
  return x ^ lshr(x, 16);
}

val random_word(std::uint32_t stream, val i, val k) {
  val seed = constant(i, stream * 0x9e3779b9u + 0x1234567u) + k * constant(i, 0x85ebca6bu);
  return hash32(i ^ hash32(seed));
}

val random_word(std::uint32_t stream, val i, std::uint32_t k) {
  return random_word(stream, i, constant(i, k));
}

val with_exponent(val r, val low, std::uint32_t exponents) {
  val step = remainder(hash32(r ^ constant(r, 0xa5a5a5a5u)), constant(r, exponents));
  val exponent = (constant(r, 127) + low) + step;
  return as_float((r & constant(r, 0x807fffffu)) | (exponent << 23));
}

val with_exponent(val r, int low, int high) {
  return with_exponent(r, r.owner().i32(low), static_cast<std::uint32_t>(high - low + 1));
}

val positive(val x) { return as_float(magnitude_bits(x)); }

val unit_interval(val r) {
  builder& b = r.owner();
  return b.unary(opcode::i2f, lshr(r, 8)) * b.f32(0x1p-23f) - b.f32(1.0f);
}

val activations(val r) {
  // A byte of -128 gets its lowest bit set: t is 0 in that byte, which the sum finds.
  val low = constant(r, 0x7f7f7f7fu), t = r ^ constant(r, 0x80808080u);
  val nonzero = ((t & low) + low) | t | low;
  return r | lshr(nonzero ^ constant(r, 0xffffffffu), 7);
}

val half_scale(val r, bool sign) {
  builder& b = r.owner();
  val small = lshr(r, 8) & b.u32(0x3ffu), usual = b.u32(0x1000u) + remainder(r, b.u32(0x1800u));
  val h = b.select(eq(lshr(r, 24) & b.u32(15), b.i32(0)), small, usual);
  if (sign) h = h | (lshr(r, 16) & b.u32(0x8000u));
  return b.unary(opcode::h2f, h);
}

val group_index(builder& b) { return b.group_y() * b.u32(groups_in_x) + b.group_x(); }

program word_per_lane(const char* name, const std::function<val(builder& b, val i)>& body) {
  builder b(name);
  val first = group_index(b) << 5, word = body(b, first + b.lane());
  if (word.type().scalar == scalar_type::f32) word = bits(word);
  b.store_lanes(memory_type::i32, b.offset(b.argument_ptr(0), first, 4), word);
  return b.finish();
}

}  // namespace terrane::kernels::contract
