// Attention where the page lives: partial results of each chunk of 64 keys, then their fold.
#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_fold.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

// One warp for a chunk, a row and a K/V head; the query heads that share it, a few at a time.
// Scores: a lane has two keys. Neighbours make a row of K one load; of halves, 32 keys follow each
// other, which a CPU converts and stores as they lie. Values: a lane a dimension.
class partial_builder {
 public:
  partial_builder(const attention_shape& shape, const attention_tuning& tuning)
      : shape_(shape),
        tuning_(tuning),
        b_("attention_partial"),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        vectors_(shape.head_size / warp_lanes),
        weights_(b_.shared(pass_ * page_positions)) {
    assert(shape.head_size % warp_lanes == 0 && shape.head_size <= 256 &&
           shape.heads % shape.kv_heads == 0 && "a shape of the engine");
  }

  program build() {
    row_ = b_.group_y() + b_.argument_i32(8);
    b_.branch(lt(row_, step_rows(b_, 3)), [&] { live_row(); });
    return b_.finish();
  }

 private:
  void live_row() {
    chunk_ = b_.binary(opcode::iudiv, b_.group_x(), b_.u32(shape_.kv_heads));
    kv_head_ = b_.binary(opcode::iurem, b_.group_x(), b_.u32(shape_.kv_heads));
    const val position = step_input(b_, 1, row_);
    if (shape_.window != 0) chunk_ = chunk_ + lshr(first_key_seen(b_, shape_, position), 6);
    val start = chunk_ << 6, size = b_.u32(page_positions);
    first_ = smax(b_.i32(0), first_key_seen(b_, shape_, position) - start);
    end_ = smin(size, (position - start) + b_.i32(1));
    b_.branch(lt(first_, end_), [&] {
      const val slot = step_input(b_, 2, row_);
      page_entry entry(b_, b_.argument_ptr(4), slot, b_.argument_i32(5), chunk_);
      b_.branch(entry.present(), [&] { attend(entry.address()); });
    });
  }

  void attend(val page) {
    std::uint32_t head_bytes = 2 * shape_.head_size * page_positions;
    keys_ = b_.offset(page, kv_head_, head_bytes);
    values_ = b_.offset(b_.offset(page, page_bytes(shape_) / 2), kv_head_, head_bytes);
    b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
      val head = kv_head_ * b_.u32(group_) + done;
      vals maxima = write_weights(scores(head));
      b_.barrier();
      write_partials(head, maxima);
      b_.barrier();
    });
  }

  // Two lane values a head: the products' sums with the lane's two keys, in rising d.
  vals scores(val head) {
    std::uint32_t size = shape_.head_size;
    val q = b_.offset(b_.offset(b_.argument_ptr(0), row_, 4 * size * shape_.heads), head, 4 * size);
    vals zero(2 * pass_, b_.spread_to_lanes(b_.f32(0.0f)));
    return b_.loop(b_.i32(0), b_.u32(size), tuning_.dimensions, zero,
                   [&](val d, const vals& carried) {
                     vals sums = carried, keys;
                     for (int k = 0; k < tuning_.dimensions; k++)
                       for (val key : load_keys(d + b_.i32(k))) keys.push_back(key);
                     for (std::uint32_t h = 0; h < pass_; h++)
                       add_products(sums, h, b_.offset(b_.offset(q, 4 * size * h), d, 4), keys);
                     return sums;
                   });
  }

  // What a lane has of dimension d: its two keys' f16, as loaded.
  vals load_keys(val d) {
    val row = b_.offset(keys_, d, 2 * page_positions);
    if (tuning_.keys == lane_keys::neighbours) return {b_.stream_lanes(memory_type::i32, row)};
    return {b_.stream_lanes(memory_type::u16, row),
            b_.stream_lanes(memory_type::u16, b_.offset(row, 2 * warp_lanes))};
  }

  void add_products(vals& sums, std::uint32_t h, val q, const vals& keys) {
    bool pairs = tuning_.keys == lane_keys::neighbours;
    vals qs;
    for (int four = 0; four < tuning_.dimensions; four += 4) {
      int count = std::min(4, tuning_.dimensions - four);
      val at = b_.offset(q, std::int64_t{4} * four);
      if (count == 1) qs.push_back(b_.load(memory_type::i32, at));
      if (count > 1)
        for (val word : b_.load_words(at, count)) qs.push_back(word);
    }
    for (std::size_t k = 0; k < qs.size(); k++) {
      val qk = contract::as_float(qs[k]);
      val first = pairs ? keys[k] & b_.u32(0xffffu) : keys[2 * k];
      val second = pairs ? lshr(keys[k], 16) : keys[2 * k + 1];
      sums[2 * h] = b_.fma_exact(qk, b_.half_number(first), sums[2 * h]);
      sums[2 * h + 1] = b_.fma_exact(qk, b_.half_number(second), sums[2 * h + 1]);
    }
  }

  // Writes p of every key and head to shared memory; returns the heads' maxima.
  vals write_weights(const vals& sums) {
    vals maxima;
    bool pairs = tuning_.keys == lane_keys::neighbours;
    val least = b_.u32(0x80000000u);
    std::array<val, 2> keys = {pairs ? b_.lane() << 1 : b_.lane(), {}};
    keys[1] = keys[0] + b_.i32(pairs ? 1 : warp_lanes);
    for (std::uint32_t h = 0; h < pass_; h++) {
      val largest = least;
      std::array<val, 2> scaled = {};
      for (std::size_t k = 0; k < 2; k++) {
        scaled[k] = sums[2 * h + k] * b_.f32(shape_.scale);
        val seen = both(negate(lt(keys[k], first_)), lt(keys[k], end_));
        largest = smax(largest, b_.select(seen, contract::order_bits(scaled[k]), least));
      }
      val maximum = contract::from_order_bits(b_.unary(opcode::lane_max, largest));
      for (std::uint32_t k = 0; k < 2; k++) {
        val p = contract::round_to_f16(contract::score_weight(scaled[k], maximum));
        std::uint32_t to = weights_ + h * page_positions;
        if (pairs)
          b_.shared_store(b_.u32(to) + keys[k], p);
        else
          b_.shared_store_lanes(b_.u32(to + k * warp_lanes), p);
      }
      maxima.push_back(maximum);
    }
    return maxima;
  }

  // l and o of each head: left folds over the keys seen.
  void write_partials(val head, const vals& maxima) {
    // l is the same for the warp, which the zero's type must say.
    vals sums(pass_, b_.unary(opcode::bits_to_float, b_.warp() & b_.i32(0)));
    sums.insert(sums.end(), std::size_t{pass_} * vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
    auto add = [&](val begin, val end, int keys) {
      sums = b_.loop(begin, end, keys, sums,
                     [&](val key, const vals& carried) { return add_values(carried, key, keys); });
    };
    val whole = first_ + ((end_ - first_) & b_.i32(-tuning_.values));  // a power of two
    add(first_, whole, tuning_.values);
    if (tuning_.values > 1) add(whole, end_, 1);
    for (std::uint32_t h = 0; h < pass_; h++) {
      val out = partial_row(b_, shape_, b_.argument_ptr(6), chunk_, b_.group_y(),
                            b_.argument_i32(7), head + b_.u32(h));
      for (std::uint32_t d = 0; d < vectors_; d++)
        b_.store_lanes(memory_type::f32, b_.offset(out, 4 * warp_lanes * d),
                       sums[pass_ + h * vectors_ + d]);
      b_.store(memory_type::f32, b_.offset(out, 4 * shape_.head_size), maxima[h]);
      b_.store(memory_type::f32, b_.offset(out, 4 * (shape_.head_size + 1)), sums[h]);
    }
  }

  // l and o of each head with `count` more keys from `key` on.
  vals add_values(const vals& sums, val key, int count) {
    vals next = sums, v;
    for (int k = 0; k < count; k++) {
      val row = b_.offset(values_, key + b_.i32(k), 2 * shape_.head_size);
      for (std::uint32_t d = 0; d < vectors_; d++)
        v.push_back(
            b_.half_number(b_.stream_lanes(memory_type::u16, b_.offset(row, 2 * warp_lanes * d))));
    }
    for (std::uint32_t h = 0; h < pass_; h++) {
      for (int k = 0; k < count; k++) {
        val at = b_.u32(weights_ + h * page_positions) + (key + b_.i32(k));
        val p = b_.shared_load(scalar_type::f32, at);
        next[h] = next[h] + p;
        for (std::uint32_t d = 0; d < vectors_; d++) {
          val& o = next[pass_ + h * vectors_ + d];
          o = b_.fma_exact(p, v[static_cast<std::uint32_t>(k) * vectors_ + d], o);
        }
      }
    }
    return next;
  }

  const attention_shape& shape_;
  const attention_tuning& tuning_;
  builder b_;
  std::uint32_t group_, pass_, vectors_, weights_;
  val row_, chunk_, kv_head_, keys_, values_;
  val first_, end_;  // the keys of the chunk that the row sees: [first, end)
};

// One warp for a head of a row: the running state over its chunks in rising order.
class combine_builder {
 public:
  explicit combine_builder(const attention_shape& shape) : shape_(shape), b_("attention_combine") {}

  program build() {
    row_ = b_.group_y() + b_.argument_i32(5);
    b_.branch(lt(row_, step_rows(b_, 2)), [&] { live_row(); });
    return b_.finish();
  }

 private:
  void live_row() {
    const std::uint32_t vectors = shape_.head_size / warp_lanes;
    attention_fold fold(b_, shape_, b_.argument_ptr(0), b_.group_y(), b_.argument_i32(4),
                        step_input(b_, 1, row_));
    const vals o = fold.result(b_.group_x(), b_.i32(0), vectors);
    const val out =
        b_.offset(b_.offset(b_.argument_ptr(3), row_, 4 * shape_.head_size * shape_.heads),
                  b_.group_x(), 4 * shape_.head_size);
    for (std::uint32_t d = 0; d < vectors; d++)
      b_.store_lanes(memory_type::f32, b_.offset(out, 4 * warp_lanes * d), o[d]);
  }

  const attention_shape& shape_;
  builder b_;
  val row_;
};

}  // namespace

std::uint32_t heads_per_pass(std::uint32_t group) {
  for (std::uint32_t n = 8; n > 1; n--)
    if (group % n == 0) return n;
  return 1;
}

val first_key_seen(builder& b, const attention_shape& shape, val position) {
  if (shape.window == 0) return b.i32(0);
  return smax(b.i32(0), position - b.u32(shape.window - 1));
}

val partial_row(builder& b, const attention_shape& shape, val partials, val chunk, val row,
                val row_capacity, val head) {
  val rows = b.offset(partials, chunk * row_capacity + row, partial_row_bytes(shape));
  return b.offset(rows, head, 4 * (shape.head_size + 2));
}

std::uint32_t page_bytes(const attention_shape& shape) {
  return 2 * 2 * shape.kv_heads * shape.head_size * page_positions;
}

std::uint32_t first_key(const attention_shape& shape, std::uint32_t position) {
  return shape.window == 0 || position < shape.window ? 0 : position + 1 - shape.window;
}

// The first key of a window may be the last of its chunk.
std::uint32_t chunks_seen(const attention_shape& shape, std::uint32_t chunks) {
  if (shape.window == 0) return chunks;
  return std::min(chunks, (shape.window - 1 + page_positions - 1) / page_positions + 1);
}

std::uint32_t partial_row_bytes(const attention_shape& shape) {
  return 4 * shape.heads * (shape.head_size + 2);
}

program attention_partial(const attention_shape& shape, const attention_tuning& tuning) {
  if (tuning.warps != 1) return wide_attention_partial(shape);
  if (tuning.rows != 1) return tiled_attention_partial(shape, tuning.rows);
  return partial_builder(shape, tuning).build();
}

grid attention_partial_grid(const attention_shape& shape, std::uint32_t rows, std::uint32_t chunks,
                            const attention_tuning& tuning) {
  return {chunks_seen(shape, chunks) * shape.kv_heads, (rows + tuning.rows - 1) / tuning.rows};
}

program attention_combine(const attention_shape& shape) { return combine_builder(shape).build(); }

grid attention_combine_grid(const attention_shape& shape, std::uint32_t rows) {
  return {shape.heads, rows};
}

}  // namespace terrane::kernels
