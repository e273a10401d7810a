// Operations 80 to 95 of the self-test: attention and norms, a workgroup a row; rotations.
#include "kernels/contract/generator.hpp"
#include "kernels/contract/scalars.hpp"
#include "kernels/contract/selftest_programs.hpp"

namespace terrane::kernels::contract {

namespace {

// Attention of one made-up row: four query rows share keys and values; the spread of scores grows
// with row % 4; values reach denormal halves. Chunk after chunk, one warp.
class attention_row {
 public:
  attention_row(const char* name, std::uint32_t size, float scale)
      : b_(name), size_(size), scale_(scale), weights_(b_.shared(64)), row_(group_index(b_)) {}

  program build() {
    val keys = size_ == 64
                   ? b_.i32(593)
                   : b_.i32(1) + b_.binary(opcode::iurem, random_word(503, row_, 0), b_.i32(593));
    // A maximum below all others stands for no state: its weight is 0 and the first chunk's is 1.
    val scalar_zero = as_float(b_.warp() & b_.i32(0));
    vals state = {scalar_zero + b_.f32(-1e30f), scalar_zero};
    state.insert(state.end(), size_ / 32, b_.spread_to_lanes(b_.f32(0.0f)));
    state = b_.loop(b_.i32(0), lshr(keys + b_.i32(63), 6), 1, state,
                    [&](val chunk, const vals& s) { return folded(s, chunk << 6, keys); });
    val inverse = rcp(state[1]), out = b_.offset(b_.argument_ptr(0), row_, 4 * size_);
    for (std::uint32_t v = 0; v < size_ / 32; v++)
      b_.store_lanes(memory_type::f32, b_.offset(out, 128 * v), store_rule(state[2 + v] * inverse));
    return b_.finish();
  }

 private:
  val value_of(std::uint32_t stream, val key, val d, int low) {
    val item = lshr(row_, 2);
    return round_to_f16(with_exponent(random_word(stream, item, (key << 7) + d), low, 1));
  }

  vals folded(const vals& state, val first, val keys) {
    val count = smin(b_.i32(64), keys - first);
    vals partial = chunk_partial(first, count);
    val top = b_.select(lt(state[0], partial[0]), partial[0], state[0]);
    val a = score_weight(state[0], top), b = score_weight(partial[0], top);
    vals next = {top};
    for (std::size_t k = 1; k < state.size(); k++) next.push_back(mix(state[k], a, partial[k], b));
    return next;
  }

  vals chunk_partial(val first, val count) {
    val t0 = b_.lane(), t1 = b_.lane() + b_.i32(32), least = b_.u32(0x80000000u);
    vals dots = scores(first + t0, first + t1);
    val s0 = dots[0] * b_.f32(scale_), s1 = dots[1] * b_.f32(scale_);
    val largest = smax(b_.select(lt(t0, count), order_bits(s0), least),
                       b_.select(lt(t1, count), order_bits(s1), least));
    val m = from_order_bits(b_.unary(opcode::lane_max, largest));
    b_.shared_store(b_.u32(weights_) + t0, round_to_f16(score_weight(s0, m)));
    b_.shared_store(b_.u32(weights_) + t1, round_to_f16(score_weight(s1, m)));
    b_.barrier();
    vals sums = {as_float(b_.warp() & b_.i32(0))};
    sums.insert(sums.end(), size_ / 32, b_.spread_to_lanes(b_.f32(0.0f)));
    sums = b_.loop(b_.i32(0), count, 1, sums, [&](val t, const vals& c) {
      val p = b_.shared_load(scalar_type::f32, b_.u32(weights_) + t);
      vals next = {c[0] + p};
      for (std::uint32_t v = 0; v < size_ / 32; v++) {
        val x = value_of(502, first + t, b_.lane() + b_.u32(32 * v), -26);
        next.push_back(c[1 + v] + p * x);
      }
      return next;
    });
    b_.barrier();
    sums.insert(sums.begin(), m);
    return sums;
  }

  vals scores(val key0, val key1) {
    val spread_of_row = (row_ & b_.i32(3)) << 1;
    vals zero(2, b_.spread_to_lanes(b_.f32(0.0f)));
    return b_.loop(b_.i32(0), b_.u32(size_), 1, zero, [&](val d, const vals& c) {
      val q = round_to_f16(with_exponent(random_word(500, row_, d), spread_of_row - b_.i32(4), 6));
      return vals{c[0] + q * value_of(501, key0, d, -4), c[1] + q * value_of(501, key1, d, -4)};
    });
  }

  builder b_;
  std::uint32_t size_;
  float scale_;
  std::uint32_t weights_;
  val row_;
};

// RMS norm of one made-up row of n: 8 vectors of 32 chains in one warp.
program norm_row(const char* name, std::uint32_t n, float inverse_n) {
  builder b(name);
  val row = group_index(b), out = b.offset(b.argument_ptr(0), row, 4 * n);
  auto x = [&](val e) { return with_exponent(random_word(310, row, e), -10, 4); };
  vals chains(8, b.spread_to_lanes(b.f32(0.0f)));
  chains = b.loop(b.i32(0), b.u32(n), 256, chains, [&](val first, const vals& c) {
    vals next;
    for (int v = 0; v < 8; v++) {
      val e = first + b.i32(32 * v) + b.lane(), xe = x(e), chain = c[static_cast<std::size_t>(v)];
      next.push_back(b.select(ult(e, b.u32(n)), chain + xe * xe, chain));
    }
    return next;
  });
  for (std::size_t half = 4; half > 0; half /= 2)
    for (std::size_t v = 0; v < half; v++) chains[v] = chains[v] + chains[v + half];
  val factor = rms_factor(b.unary(opcode::lane_tree_add, chains[0]), inverse_n, 1e-5f);
  b.loop(b.i32(0), b.u32(n), 32, [&](val first) {
    val e = first + b.lane();
    val weight = with_exponent(random_word(311, e * b.i32(0), e), -3, 1);
    b.store_if(ult(e, b.u32(n)), memory_type::f32, b.offset(out, e, 4),
               rms_element(x(e), factor, weight));
  });
  return b.finish();
}

}  // namespace

program check_attention_64() { return attention_row("check_attention_64", 64, 0.125f).build(); }
program check_attention_128() {
  return attention_row("check_attention_128", 128, 8.8388347648318447e-2f).build();
}

program check_norm_4096() { return norm_row("check_norm_4096", 4096, 1.0f / 4096.0f); }
program check_norm_576() { return norm_row("check_norm_576", 576, 1.0f / 576.0f); }
program check_norm_80() { return norm_row("check_norm_80", 80, 1.0f / 80.0f); }

program check_rotation() {
  builder b("check_rotation");
  val first = group_index(b) << 5, pair = first + b.lane();
  vals entry = b.load_words(b.offset(b.argument_ptr(1), pair, 8), 2);
  val x0 = with_exponent(random_word(510, pair, 0), -12, 6);
  val x1 = with_exponent(random_word(510, pair, 1), -12, 6);
  val out = b.offset(b.argument_ptr(0), pair, 8), c = as_float(entry[0]), s = as_float(entry[1]);
  val is_first = eq(b.i32(0), b.i32(0));
  b.store(memory_type::f32, out, rotate(is_first, x0, x1, c, s));
  b.store(memory_type::f32, b.offset(out, 4), rotate(negate(is_first), x1, x0, c, s));
  return b.finish();
}

}  // namespace terrane::kernels::contract
