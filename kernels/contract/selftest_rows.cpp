// Operations 60 to 72 of the self-test: row sums of every kind of weight, a lane a row.
//
// Weights and activations come from the generator. Row r meets token r / 1024; odd rows and every
// fourth token are biased to large positive integers, so that the sums of K-quants pass 2^24.
#include "kernels/contract/generator.hpp"
#include "kernels/contract/scalars.hpp"
#include "kernels/contract/selftest_programs.hpp"

namespace terrane::kernels::contract {

namespace {

class row_inputs {
 public:
  row_inputs(builder& b, val row, std::uint32_t k)
      : b_(b), row_(row), token_(lshr(row, 10)), blocks_per_scale_(k % 256 == 0 ? 8 : 1) {}

  // Four activations: word `w` of the token; the scale of a block of 32; the sum of its integers.
  val x(val w) {
    val r = random_word(400, token_, w);
    val large = (r & b_.u32(0x7f7f7f7fu)) | b_.u32(0x60606060u);
    return activations(b_.select(eq(token_ & b_.i32(3), b_.i32(3)), large, r));
  }
  val scale(val block) {
    val index = blocks_per_scale_ == 8 ? lshr(block, 3) : block;
    return positive(with_exponent(random_word(401, token_, index), -12, 2));
  }
  val block_sum(val block) {
    val sum = b_.i32(0);
    for (int w = 0; w < 8; w++)
      sum = b_.dot4(b_.u32(0x01010101u), x((block << 3) + b_.i32(w)), sum, 1);
    return sum;
  }

  val item(val block) { return (row_ << 5) + block; }

  // Four unsigned weights, `mask` each; odd rows are biased upwards.
  val weights(std::uint32_t stream, val block, int w, std::uint32_t mask) {
    val r = random_word(stream, item(block), static_cast<std::uint32_t>(w));
    val biased = r | b_.u32(mask & ~((mask >> 2) & 0x3f3f3f3fu));
    return odd(biased, r) & b_.u32(mask);
  }
  val unsigned_dot(std::uint32_t stream, val block, std::uint32_t mask) {
    val sum = b_.i32(0);
    for (int w = 0; w < 8; w++)
      sum = b_.dot4(weights(stream, block, w, mask), x((block << 3) + b_.i32(w)), sum, 8);
    return sum;
  }
  val six_bits(std::uint32_t stream, val block) {
    val v = random_word(stream, item(block), 0) & b_.u32(63);
    return odd(v | b_.u32(48), v);
  }
  val signed_byte(std::uint32_t stream, val part) {  // 64 parts a row
    val v = random_word(stream, (row_ << 6) + part, 0) & b_.u32(255);
    return ashr(odd((v & b_.u32(127)) | b_.u32(96), v) << 24, 24);
  }
  val half(std::uint32_t stream, val index, bool sign) {
    return half_scale(random_word(stream, row_, index), sign);
  }
  val odd(val if_odd, val if_even) {
    return b_.select(eq(row_ & b_.i32(1), b_.i32(1)), if_odd, if_even);
  }
  val row() const { return row_; }
  val token() const { return token_; }

 private:
  builder& b_;
  val row_, token_;
  std::uint32_t blocks_per_scale_;
};

val from_int(val v) { return v.owner().unary(opcode::i2f, v); }

using segment_function = val (*)(builder& b, row_inputs& in, val segment, val blocks);

program row_program(const char* name, std::uint32_t k, segment_function segment_sum) {
  return word_per_lane(name, [&](builder& b, val row) {
    row_inputs in(b, row, k);
    vals zero = {b.spread_to_lanes(b.f32(0.0f))};
    return b.loop(b.i32(0), b.u32((k + 255) / 256), 1, zero, [&](val segment, const vals& total) {
      val blocks = smin(b.i32(8), b.u32(k / 32) - (segment << 3));
      return vals{total[0] + segment_sum(b, in, segment, blocks)};
    })[0];
  });
}

// A term for each block of 32.
val fold_terms(builder& b, val segment, val blocks, const std::function<val(val block)>& term) {
  vals zero = {b.spread_to_lanes(b.f32(0.0f))};
  return b.loop(b.i32(0), blocks, 1, zero,
                [&](val k, const vals& sum) { return vals{sum[0] + term((segment << 3) + k)}; })[0];
}

val q8_0_segment(builder& b, row_inputs& in, val segment, val blocks) {
  return fold_terms(b, segment, blocks, [&](val block) {
    val sum = b.i32(0);
    for (int w = 0; w < 8; w++) {
      val weights = random_word(410, in.item(block), static_cast<std::uint32_t>(w));
      sum = b.dot4(weights ^ b.u32(0x80808080u), in.x((block << 3) + b.i32(w)), sum, 8);
    }
    sum = sum - (in.block_sum(block) << 7);
    return (in.half(411, block, true) * in.scale(block)) * from_int(sum);
  });
}

val q4_0_segment(builder& b, row_inputs& in, val segment, val blocks) {
  return fold_terms(b, segment, blocks, [&](val block) {
    val sum = in.unsigned_dot(420, block, 0x0f0f0f0fu) - (in.block_sum(block) << 3);
    return (in.half(421, block, true) * in.scale(block)) * from_int(sum);
  });
}

val q4_1_segment(builder& b, row_inputs& in, val segment, val blocks) {
  return fold_terms(b, segment, blocks, [&](val block) {
    val sum = in.unsigned_dot(430, block, 0x0f0f0f0fu), scale = in.scale(block);
    val weighted = (in.half(431, block, true) * scale) * from_int(sum);
    return weighted + (in.half(432, block, true) * scale) * from_int(in.block_sum(block));
  });
}

// Q4_K and Q5_K: one term from exact sums.
val super_block(builder& b, row_inputs& in, val segment, std::uint32_t stream, std::uint32_t mask) {
  vals zero(2, b.lane() * b.i32(0));
  vals sums = b.loop(b.i32(0), b.i32(8), 1, zero, [&](val k, const vals& c) {
    val block = (segment << 3) + k;
    return vals{c[0] + in.six_bits(stream + 1, block) * in.unsigned_dot(stream, block, mask),
                c[1] + in.six_bits(stream + 2, block) * in.block_sum(block)};
  });
  val d = in.half(stream + 3, segment, false), dmin = in.half(stream + 4, segment, false);
  val scaled = d * from_int(sums[0]) - dmin * from_int(sums[1]);
  return b.f32(0.0f) + scaled * in.scale(segment << 3);
}

val q4_k_segment(builder& b, row_inputs& in, val segment, val) {
  return super_block(b, in, segment, 440, 0x0f0f0f0fu);
}

val q5_k_segment(builder& b, row_inputs& in, val segment, val) {
  return super_block(b, in, segment, 450, 0x1f1f1f1fu);
}

val q6_k_segment(builder& b, row_inputs& in, val segment, val) {
  vals zero = {b.lane() * b.i32(0)};
  val sum = b.loop(b.i32(0), b.i32(8), 1, zero, [&](val k, const vals& c) {
    val block = (segment << 3) + k, total = c[0];
    for (int part = 0; part < 2; part++) {
      val is = b.i32(0), bs = b.i32(0);
      for (int w = 4 * part; w < 4 * part + 4; w++) {
        val x = in.x((block << 3) + b.i32(w));
        is = b.dot4(in.weights(460, block, w, 0x3f3f3f3fu), x, is, 6);
        bs = b.dot4(b.u32(0x01010101u), x, bs, 1);
      }
      total = total + in.signed_byte(461, (block << 1) + b.i32(part)) * (is - (bs << 5));
    }
    return vals{total};
  })[0];
  val term = (in.half(462, segment, true) * in.scale(segment << 3)) * from_int(sum);
  return b.f32(0.0f) + term;
}

enum class float_weights { f16, bf16 };

val float_segment(builder& b, row_inputs& in, val segment, float_weights kind, bool fused) {
  vals zero = {b.spread_to_lanes(b.f32(0.0f))};
  val first = segment << 8;
  return b.loop(first, first + b.i32(256), 1, zero, [&](val k, const vals& c) {
    val w = with_exponent(random_word(470, in.row(), k), -12, 0);
    w = kind == float_weights::f16 ? round_to_f16(w) : as_float(bits(w) & b.u32(0xffff0000u));
    val x = round_to_f16(with_exponent(random_word(471, in.token(), k), -8, 4));
    return vals{fused ? b.fma_exact(w, x, c[0]) : c[0] + w * x};
  })[0];
}

val f16_segment(builder& b, row_inputs& in, val segment, val) {
  return float_segment(b, in, segment, float_weights::f16, false);
}

val f16_fused_segment(builder& b, row_inputs& in, val segment, val) {
  return float_segment(b, in, segment, float_weights::f16, true);
}

val bf16_segment(builder& b, row_inputs& in, val segment, val) {
  return float_segment(b, in, segment, float_weights::bf16, false);
}

}  // namespace

program check_q8_0_row() { return row_program("check_q8_0_row", 1024, q8_0_segment); }
program check_q4_0_row() { return row_program("check_q4_0_row", 1024, q4_0_segment); }
program check_q4_1_row() { return row_program("check_q4_1_row", 1024, q4_1_segment); }
program check_q4_k_row() { return row_program("check_q4_k_row", 1024, q4_k_segment); }
program check_q5_k_row() { return row_program("check_q5_k_row", 1024, q5_k_segment); }
program check_q6_k_row() { return row_program("check_q6_k_row", 1024, q6_k_segment); }
program check_f16_row() { return row_program("check_f16_row", 1024, f16_segment); }
program check_f16_row_fused() {
  return row_program("check_f16_row_fused", 1024, f16_fused_segment);
}
program check_bf16_row() { return row_program("check_bf16_row", 1024, bf16_segment); }
program check_q8_0_short_row() { return row_program("check_q8_0_short_row", 576, q8_0_segment); }
program check_q4_1_short_row() { return row_program("check_q4_1_short_row", 576, q4_1_segment); }

}  // namespace terrane::kernels::contract
