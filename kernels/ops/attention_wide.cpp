// Attention partials where few rows leave a device idle: many warps for a page, so that a whole
// page is on its way from memory at once. The same folds, so the same bits.
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

// Two warps for a chunk, a row and a head, all heads of a pass in one workgroup. Scores: a lane a
// key, each warp half of them. Values: a lane a dimension, each warp half of them.
class wide_partial_builder {
 public:
  explicit wide_partial_builder(const attention_shape& shape)
      : shape_(shape),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        vectors_(shape.head_size / warp_lanes / 2),
        b_("attention_partial", static_cast<int>(2 * pass_)),
        weights_(b_.shared(pass_ * page_positions)),
        maxima_(b_.shared(2 * pass_)) {
    assert(attention_warps(shape) == b_.warps() && "a shape of the engine");
  }

  program build() {
    row_ = b_.group_y() + b_.argument_i32(8);
    // Before it is known whether the row is alive: the loads are on their way together.
    const val rows = b_.load(memory_type::i32, b_.argument_ptr(3));
    const val position = b_.load(memory_type::i32, b_.offset(b_.argument_ptr(1), row_, 4));
    const val slot = b_.load(memory_type::i32, b_.offset(b_.argument_ptr(2), row_, 4));
    b_.branch(lt(row_, rows), [&] { live_row(position, slot); });
    return b_.finish();
  }

 private:
  void live_row(val position, val slot) {
    chunk_ = b_.binary(opcode::iudiv, b_.group_x(), b_.u32(shape_.kv_heads));
    kv_head_ = b_.binary(opcode::iurem, b_.group_x(), b_.u32(shape_.kv_heads));
    const val first = first_key_seen(b_, shape_, position);
    if (shape_.window != 0) chunk_ = chunk_ + lshr(first, 6);
    const val start = chunk_ << 6;
    first_ = smax(b_.i32(0), first - start);
    end_ = smin(b_.u32(page_positions), (position - start) + b_.i32(1));
    b_.branch(lt(first_, end_), [&] {
      page_entry entry(b_, b_.argument_ptr(4), slot, b_.argument_i32(5), chunk_);
      b_.branch(entry.present(), [&] { attend(entry.address()); });
    });
  }

  void attend(val page) {
    const std::uint32_t head_bytes = 2 * shape_.head_size * page_positions;
    keys_ = b_.offset(page, kv_head_, head_bytes);
    values_ = b_.offset(b_.offset(page, page_bytes(shape_) / 2), kv_head_, head_bytes);
    own_ = lshr(b_.warp(), 1);
    half_ = b_.warp() & b_.i32(1);
    b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
      const val head = kv_head_ * b_.u32(group_) + done + own_;
      const val maximum = write_weights(score(head));
      b_.barrier();
      write_partial(head, maximum);
      if (pass_ < group_) b_.barrier();
    });
  }

  val key() { return (half_ << 5) + b_.lane(); }
  val weight_words() { return b_.u32(weights_) + own_ * b_.u32(page_positions); }

  // The product's sum with the lane's key, in rising d.
  val score(val head) {
    const std::uint32_t size = shape_.head_size;
    const val q =
        b_.offset(b_.offset(b_.argument_ptr(0), row_, 4 * size * shape_.heads), head, 4 * size);
    const val keys = b_.offset(keys_, half_, 2 * warp_lanes);
    const vals zero = {b_.spread_to_lanes(b_.f32(0.0f))};
    constexpr int step = 32;  // dimensions a turn, their loads in flight together
    return b_.loop(b_.i32(0), b_.u32(size), step, zero, [&](val d, const vals& carried) {
      vals k, qs;
      for (int n = 0; n < step; n++)
        k.push_back(
            b_.load_lanes(memory_type::u16, b_.offset(keys, d + b_.i32(n), 2 * page_positions)));
      for (std::int64_t four = 0; four < step; four += 4)
        for (const val& word : b_.load_words(b_.offset(b_.offset(q, d, 4), 4 * four), 4))
          qs.push_back(word);
      val sum = carried[0];
      for (std::size_t n = 0; n < k.size(); n++)
        sum = b_.fma_exact(contract::as_float(qs[n]), b_.unary(opcode::h2f, k[n]), sum);
      return vals{sum};
    })[0];
  }

  // Writes p of the lane's key to shared memory; returns the head's maximum, which its two warps
  // find together.
  val write_weights(val sum) {
    const val scaled = sum * b_.f32(shape_.scale), least = b_.u32(0x80000000u);
    const val seen = both(negate(lt(key(), first_)), lt(key(), end_));
    const val largest =
        b_.unary(opcode::lane_max, b_.select(seen, contract::order_bits(scaled), least));
    b_.shared_store(b_.u32(maxima_) + b_.warp(), largest);
    b_.barrier();
    const val pair = b_.u32(maxima_) + (own_ << 1);
    const val maximum =
        contract::from_order_bits(smax(b_.shared_load(scalar_type::i32, pair),
                                       b_.shared_load(scalar_type::i32, pair + b_.i32(1))));
    b_.shared_store(weight_words() + key(),
                    contract::round_to_f16(contract::score_weight(scaled, maximum)));
    return maximum;
  }

  // l and o of the head, o of this warp's dimensions: left folds over the keys seen.
  void write_partial(val head, val maximum) {
    // l is the same for the warp, which the zero's type must say.
    vals sums = {b_.unary(opcode::bits_to_float, b_.warp() & b_.i32(0))};
    sums.insert(sums.end(), vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
    val from = first_;
    for (int bits : {4, 2, 0}) {  // 16, 4 and 1 keys a turn, their loads in flight together
      const val to = from + ((lshr(end_ - from, bits)) << bits);
      sums = b_.loop(from, to, 1 << bits, sums,
                     [&](val k, const vals& carried) { return add_values(carried, k, 1 << bits); });
      from = to;
    }
    const val out =
        partial_row(b_, shape_, b_.argument_ptr(6), chunk_, b_.group_y(), b_.argument_i32(7), head);
    const val own_out = b_.offset(out, half_, 4 * warp_lanes * vectors_);
    for (std::uint32_t d = 0; d < vectors_; d++)
      b_.store_lanes(memory_type::f32, b_.offset(own_out, 4 * warp_lanes * d), sums[1 + d]);
    const val once = eq(half_, b_.i32(0));
    b_.store_if(once, memory_type::f32, b_.offset(out, 4 * shape_.head_size), maximum);
    b_.store_if(once, memory_type::f32, b_.offset(out, 4 * (shape_.head_size + 1)), sums[0]);
  }

  // With `count` more keys from `first` on.
  vals add_values(const vals& sums, val first, int count) {
    const val values = b_.offset(values_, half_, 2 * warp_lanes * vectors_);
    vals next = sums, v;
    for (int k = 0; k < count; k++) {
      const val row = b_.offset(values, first + b_.i32(k), 2 * shape_.head_size);
      for (std::uint32_t d = 0; d < vectors_; d++)
        v.push_back(b_.unary(opcode::h2f,
                             b_.load_lanes(memory_type::u16, b_.offset(row, 2 * warp_lanes * d))));
    }
    for (int k = 0; k < count; k++) {
      const val p = b_.shared_load(scalar_type::f32, weight_words() + (first + b_.i32(k)));
      next[0] = next[0] + p;
      for (std::uint32_t d = 0; d < vectors_; d++) {
        val& o = next[1 + d];
        o = b_.fma_exact(p, v[static_cast<std::uint32_t>(k) * vectors_ + d], o);
      }
    }
    return next;
  }

  const attention_shape& shape_;
  std::uint32_t group_, pass_;
  std::uint32_t vectors_;  // of 32 dimensions, that a warp has
  builder b_;
  std::uint32_t weights_, maxima_;
  val row_, chunk_, kv_head_, keys_, values_;
  val own_, half_;   // the warp's head in its pass, and which of the head's two it is
  val first_, end_;  // the keys of the chunk that the row sees: [first, end)
};

}  // namespace

program wide_attention_partial(const attention_shape& shape) {
  return wide_partial_builder(shape).build();
}

int attention_warps(const attention_shape& shape) {
  if (shape.head_size % (2 * warp_lanes) != 0) return 1;
  return static_cast<int>(2 * heads_per_pass(shape.heads / shape.kv_heads));
}

}  // namespace terrane::kernels
