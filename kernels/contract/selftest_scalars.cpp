// Operations 1 to 40 of the self-test: one word a lane.
#include "kernels/contract/generator.hpp"
#include "kernels/contract/scalars.hpp"
#include "kernels/contract/selftest_programs.hpp"

namespace terrane::kernels::contract {

namespace {

val from_int(val v) { return v.owner().unary(opcode::i2f, v); }

// x = unit * range, then a function of it.
program over_range(const char* name, std::uint32_t stream, float range, val (*f)(val)) {
  return word_per_lane(name, [&](builder& b, val i) {
    return f(unit_interval(random_word(stream, i, 0)) * b.f32(range));
  });
}

// The numbers that 14 and 16 round: halves up to 2^20, and any below 2^21.
val rounding_input(builder& b, val i) {
  val halves = from_int(lshr(random_word(13, i, 0), 10) - b.i32(2097152)) * b.f32(0.5f);
  val any = with_exponent(random_word(13, i, 1), -20, 20);
  return b.select(eq(i & b.i32(1), b.i32(0)), any, halves);
}

val byte_of(val word, int k) { return ashr(word << (24 - 8 * k), 24); }

// One block of n elements with exponents in [top - 8, top], quantised and folded to a word.
val quantised_block(builder& b, std::uint32_t stream, val i, std::uint32_t n, val top) {
  auto element = [&](val k) {
    return store_rule(with_exponent(random_word(stream, i, k), top - b.i32(8), 9));
  };
  val zero = i * b.i32(0);
  val amax = b.loop(b.i32(0), b.u32(n), 1, {zero}, [&](val k, const vals& c) {
    return vals{smax(c[0], magnitude_bits(element(k)))};
  })[0];
  quantisation block = quantise_block(amax);
  val h = b.loop(b.i32(0), b.u32(n), 1, {bits(block.scale)}, [&](val k, const vals& c) {
    val q = quantise(element(k), block);
    return vals{hash32(c[0] ^ (q & b.i32(255))) + k};
  })[0];
  return b.select(ult(amax, b.u32(0x21800000u)), zero, h);
}

}  // namespace

program check_multiply() {
  return word_per_lane("check_multiply", [](builder&, val i) {
    return with_exponent(random_word(1, i, 0), -40, 40) *
           with_exponent(random_word(1, i, 1), -40, 40);
  });
}

program check_add() {
  return word_per_lane("check_add", [](builder&, val i) {
    return with_exponent(random_word(2, i, 0), -12, 12) +
           with_exponent(random_word(2, i, 1), -12, 12);
  });
}

program check_multiply_add() {
  return word_per_lane("check_multiply_add", [](builder&, val i) {
    val product =
        with_exponent(random_word(3, i, 0), -6, 6) * with_exponent(random_word(3, i, 1), -6, 6);
    return product + with_exponent(random_word(3, i, 2), -10, 10);
  });
}

program check_store_rule() {
  return word_per_lane("check_store_rule", [](builder& b, val i) {
    return store_rule(as_float(random_word(4, i, 0) & b.u32(0xbfffffffu)));
  });
}

program check_f32_to_f16() {
  return word_per_lane("check_f32_to_f16", [](builder& b, val i) {
    val mask = b.select(eq(i & b.i32(1), b.i32(0)), b.u32(0xfffff000u), b.u32(0xffffffffu));
    return b.unary(opcode::f2h, with_exponent(random_word(9, i, 0) & mask, -27, 17));
  });
}

program check_f16_to_f32() {
  return word_per_lane("check_f16_to_f32",
                       [](builder& b, val i) { return b.unary(opcode::h2f, i & b.u32(0xffffu)); });
}

program check_round_integral() {
  return word_per_lane("check_round_integral",
                       [](builder& b, val i) { return round_integral(rounding_input(b, i)); });
}

program check_round_to_int() {
  return word_per_lane("check_round_to_int",
                       [](builder& b, val i) { return round_to_int(rounding_input(b, i)); });
}

program check_dot4_written_out() {
  return word_per_lane("check_dot4_written_out", [](builder&, val i) {
    val x = random_word(17, i, 0), y = random_word(17, i, 1), sum = byte_of(x, 0) * byte_of(y, 0);
    for (int k = 1; k < 4; k++) sum = sum + byte_of(x, k) * byte_of(y, k);
    return sum;
  });
}

program check_dot4() {
  return word_per_lane("check_dot4", [](builder& b, val i) {
    // The instruction takes unsigned times signed: 128 more, and 128 times the sum off again.
    val x = random_word(17, i, 0) ^ b.u32(0x80808080u), y = random_word(17, i, 1);
    val sum = b.dot4(b.u32(0x01010101u), y, b.i32(0), 1);
    return b.dot4(x, y, b.i32(0), 8) - (sum << 7);
  });
}

program check_exp() { return over_range("check_exp", 19, 90.0f, exp); }

program check_rcp() {
  return word_per_lane("check_rcp", [](builder&, val i) {
    return rcp(with_exponent(random_word(21, i, 0), -60, 60));
  });
}

program check_rsqrt() {
  return word_per_lane("check_rsqrt", [](builder&, val i) {
    return rsqrt(positive(with_exponent(random_word(22, i, 0), -60, 60)));
  });
}

program check_rcp_wide() {
  return word_per_lane("check_rcp_wide", [](builder&, val i) {
    return rcp(with_exponent(random_word(23, i, 0), -100, 99));
  });
}

program check_silu() { return over_range("check_silu", 24, 200.0f, silu); }

program check_rsqrt_wide() {
  return word_per_lane("check_rsqrt_wide", [](builder&, val i) {
    return rsqrt(positive(with_exponent(random_word(25, i, 0), -100, 99)));
  });
}

program check_quantise_32() {
  return word_per_lane("check_quantise_32", [](builder& b, val i) {
    val top = b.binary(opcode::iurem, random_word(260, i, 99), b.i32(40)) - b.i32(30);
    return quantised_block(b, 260, i, 32, top);
  });
}

program check_quantise_256() {
  return word_per_lane("check_quantise_256", [](builder& b, val i) {
    val top = b.binary(opcode::iurem, random_word(261, i, 999), b.i32(100)) - b.i32(70);
    return quantised_block(b, 261, i, 256, top);
  });
}

program check_int_to_float_small() {
  return word_per_lane("check_int_to_float_small",
                       [](builder&, val i) { return from_int(ashr(random_word(33, i, 0), 7)); });
}

program check_int_to_float() {
  return word_per_lane("check_int_to_float",
                       [](builder&, val i) { return from_int(random_word(33, i, 0)); });
}

program check_int_to_float_halves() {
  return word_per_lane("check_int_to_float_halves",
                       [](builder&, val i) { return int_to_float(random_word(33, i, 0)); });
}

program check_sigmoid() { return over_range("check_sigmoid", 36, 200.0f, sigmoid); }

program check_tanh() { return over_range("check_tanh", 37, 50.0f, tanh); }

program check_gelu() {
  return word_per_lane("check_gelu", [](builder& b, val i) {
    val range = b.select(eq(i & b.i32(1), b.i32(0)), b.f32(200.0f), b.f32(8.0f));
    return gelu(unit_interval(random_word(38, i, 0)) * range);
  });
}

program check_softmax() {
  return word_per_lane("check_softmax", [](builder& b, val i) {
    constexpr int count = 128;
    auto x = [&](val k) { return with_exponent(random_word(320, i, k), -4, 4); };
    val zero = b.spread_to_lanes(b.f32(0.0f));
    val m = b.loop(b.i32(1), b.i32(count), 1, {x(b.i32(0))}, [&](val k, const vals& c) {
      val y = x(k);
      return vals{b.select(lt(c[0], y), y, c[0])};
    })[0];
    val sum = b.loop(b.i32(0), b.i32(count), 1, {zero},
                     [&](val k, const vals& c) { return vals{c[0] + score_weight(x(k), m)}; })[0];
    val inverse = rcp(sum);
    return b.loop(b.i32(0), b.i32(count), 1, {bits(zero)}, [&](val k, const vals& c) {
      val y = store_rule(score_weight(x(k), m) * inverse);
      return vals{hash32(c[0] ^ bits(y)) + k};
    })[0];
  });
}

program check_attention_fold() {
  return word_per_lane("check_attention_fold", [](builder& b, val i) {
    val zero = b.spread_to_lanes(b.f32(0.0f));
    // The maximum of the made-up partials wanders; their l and o are made from further streams.
    auto partial = [&](val c, val wander) {
      val r = random_word(504, i, c);
      val m = wander + unit_interval(random_word(505, i, c)) * b.f32(45.0f);
      val l = b.f32(1.0f) + positive(with_exponent(random_word(506, i, c), -10, 5));
      val shift = b.i32(8) + b.binary(opcode::iurem, lshr(r, 8), b.i32(24));
      val o = from_int(b.binary(opcode::iashr, random_word(507, i, c), shift)) * b.f32(0x1p-48f);
      o = b.select(eq(r & b.i32(3), b.i32(0)), zero, o);
      o = b.select(eq(r & b.i32(7), b.i32(1)), with_exponent(random_word(508, i, c), -24, 4), o);
      return vals{m, l, o};
    };
    vals first = partial(b.i32(0), zero);
    vals start = {first[0], first[1], first[2], first[0]};
    vals end = b.loop(b.i32(1), b.i32(10), 1, start, [&](val c, const vals& s) {
      vals p = partial(c, s[3]);
      val top = b.select(lt(s[0], p[0]), p[0], s[0]);
      val own = score_weight(s[0], top), other = score_weight(p[0], top);
      return vals{top, mix(s[1], own, p[1], other), mix(s[2], own, p[2], other), p[0]};
    });
    return store_rule(end[2] * rcp(end[1]));
  });
}

}  // namespace terrane::kernels::contract
