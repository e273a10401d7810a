// Attention partials where few rows leave a device idle: many warps for a page, so that a whole
// page is on its way from memory at once. The same folds, so the same bits.
#include <array>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

// Of the heads of a pass, those that a warp takes: what it loads of a page serves them all.
std::uint32_t heads_of_warp(std::uint32_t pass) { return pass % 2 == 0 ? 2 : 1; }

// A chunk, a row and the heads of a pass in one workgroup, two warps for the same heads. Scores: a
// lane a key, each of the two half of them. Values: a lane a dimension, each half of them.
//
// A page is loaded in pieces, two of them under way at a time.
class wide_partial_builder {
 public:
  explicit wide_partial_builder(const attention_shape& shape)
      : shape_(shape),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        heads_(heads_of_warp(pass_)),
        vectors_(shape.head_size / warp_lanes / 2),
        b_("attention_partial", attention_warps(shape)),
        weights_(b_.shared(pass_ * page_positions)),
        maxima_(b_.shared(2 * pass_)) {}

  program build() {
    row_ = b_.group_y() + b_.argument_i32(8);
    // Before it is known whether the row is alive: the loads are on their way together.
    const val rows = step_rows(b_, 3), position = step_input(b_, 1, row_),
              slot = step_input(b_, 2, row_);
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
    b_.prefetch(keys_, head_bytes);
    b_.prefetch(values_, head_bytes);
    own_ = lshr(b_.warp(), 1) * b_.u32(heads_);
    half_ = b_.warp() & b_.i32(1);
    b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
      const val head = kv_head_ * b_.u32(group_) + done + own_;
      const vals sums = scores(head);
      const std::array<vals, 2> loaded = {load_values(0), load_values(1)};
      const vals maxima = write_weights(sums);
      b_.barrier();
      write_partials(head, maxima, loaded);
      if (pass_ < group_) b_.barrier();
    });
  }

  val key() { return (half_ << 5) + b_.lane(); }
  // The pass's head number h of this warp.
  val own(std::uint32_t h) { return own_ + b_.u32(h); }
  val weight_words(std::uint32_t h) { return b_.u32(weights_) + own(h) * b_.u32(page_positions); }

  // Dimensions `piece` * key_piece and so on of the lane's key.
  vals load_keys(std::uint32_t piece) {
    const val keys = b_.offset(b_.offset(keys_, half_, 2 * warp_lanes),
                               std::int64_t{2} * page_positions * piece * key_piece);
    vals k;
    for (std::uint32_t n = 0; n < key_piece; n++)
      k.push_back(
          b_.load_lanes(memory_type::u16, b_.offset(keys, std::int64_t{2} * page_positions * n)));
    return k;
  }

  // For each of the warp's heads the product's sum with the lane's key, in rising d.
  vals scores(val head) {
    const std::uint32_t size = shape_.head_size, pieces = size / key_piece;
    const val q =
        b_.offset(b_.offset(b_.argument_ptr(0), row_, 4 * size * shape_.heads), head, 4 * size);
    vals sums(heads_, b_.spread_to_lanes(b_.f32(0.0f)));
    std::array<vals, 2> k = {load_keys(0), load_keys(1)};
    for (std::uint32_t piece = 0; piece < pieces; piece++) {
      const vals now = k[piece % 2];
      if (piece + 2 < pieces) k[piece % 2] = load_keys(piece + 2);
      for (std::uint32_t h = 0; h < heads_; h++)
        add_products(sums[h], b_.offset(q, std::int64_t{4} * (h * size + piece * key_piece)), now);
    }
    return sums;
  }

  void add_products(val& sum, val q, const vals& k) {
    for (std::uint32_t n = 0; n < key_piece; n += 4) {
      const vals words = b_.load_words(b_.offset(q, std::int64_t{4} * n), 4);
      for (std::uint32_t w = 0; w < 4; w++)
        sum = b_.fma_exact(contract::as_float(words[w]), b_.half_number(k[n + w]), sum);
    }
  }

  // Writes p of the lane's key to shared memory; returns the heads' maxima, each of which two
  // warps find together.
  vals write_weights(const vals& sums) {
    const val least = b_.u32(0x80000000u);
    const val seen = both(negate(lt(key(), first_)), lt(key(), end_));
    vals scaled, maxima;
    for (std::uint32_t h = 0; h < heads_; h++) {
      scaled.push_back(sums[h] * b_.f32(shape_.scale));
      const val bits = b_.select(seen, contract::order_bits(scaled[h]), least);
      b_.shared_store(b_.u32(maxima_) + (own(h) << 1) + half_, b_.unary(opcode::lane_max, bits));
    }
    b_.barrier();
    for (std::uint32_t h = 0; h < heads_; h++) {
      const val pair = b_.u32(maxima_) + (own(h) << 1);
      maxima.push_back(
          contract::from_order_bits(smax(b_.shared_load(scalar_type::i32, pair),
                                         b_.shared_load(scalar_type::i32, pair + b_.i32(1)))));
      b_.shared_store(weight_words(h) + key(),
                      contract::round_to_f16(contract::score_weight(scaled[h], maxima[h])));
    }
    return maxima;
  }

  // This warp's dimensions of keys `piece` * value_piece and so on, seen or not: a vector for each
  // 32 dimensions, key by key.
  vals load_values(std::uint32_t piece) {
    const std::uint32_t row_bytes = 2 * shape_.head_size;
    const val values = b_.offset(b_.offset(values_, half_, 2 * warp_lanes * vectors_),
                                 std::int64_t{row_bytes} * piece * value_piece);
    vals v;
    for (std::uint32_t k = 0; k < value_piece; k++)
      for (std::uint32_t d = 0; d < vectors_; d++)
        v.push_back(b_.load_lanes(
            memory_type::u16,
            b_.offset(values, std::int64_t{row_bytes} * k + std::int64_t{2} * warp_lanes * d)));
    return v;
  }

  // l and o of each head, o of this warp's dimensions: left folds over the keys seen.
  void write_partials(val head, const vals& maxima, std::array<vals, 2> loaded) {
    vals sums;
    for (std::uint32_t h = 0; h < heads_; h++) {
      // l is the same for the warp, which the zero's type must say.
      sums.push_back(b_.unary(opcode::bits_to_float, b_.warp() & b_.i32(0)));
      sums.insert(sums.end(), vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
    }
    constexpr std::uint32_t pieces = page_positions / value_piece;
    for (std::uint32_t piece = 0; piece < pieces; piece++) {
      const vals now = loaded[piece % 2];
      if (piece + 2 < pieces) loaded[piece % 2] = load_values(piece + 2);
      const val from = b_.u32(piece * value_piece), to = b_.u32((piece + 1) * value_piece);
      sums = b_.branch(
          either(lt(from, first_), lt(end_, to)),
          [&] { return with_values(sums, piece, now, true); },
          [&] { return with_values(sums, piece, now, false); });
    }
    for (std::uint32_t h = 0; h < heads_; h++)
      write_partial(head + b_.u32(h), maxima[h], &sums[h * (1 + vectors_)]);
  }

  // The sums with a piece's values; `cut`: not all of its keys are seen.
  vals with_values(const vals& sums, std::uint32_t piece, const vals& v, bool cut) {
    vals next = sums;
    for (std::uint32_t k = 0; k < value_piece; k++) {
      const val key = b_.u32(piece * value_piece + k);
      const val seen = both(negate(lt(key, first_)), lt(key, end_));
      auto add = [&](val& sum, val more) { sum = cut ? b_.select(seen, more, sum) : more; };
      for (std::uint32_t h = 0; h < heads_; h++) {
        const val p = b_.shared_load(scalar_type::f32, weight_words(h) + key);
        vals::iterator own_sums = next.begin() + h * (1 + vectors_);
        add(own_sums[0], own_sums[0] + p);
        for (std::uint32_t d = 0; d < vectors_; d++)
          add(own_sums[1 + d],
              b_.fma_exact(p, b_.half_number(v[k * vectors_ + d]), own_sums[1 + d]));
      }
    }
    return next;
  }

  // `sums`: l, then the vectors of o.
  void write_partial(val head, val maximum, const val* sums) {
    const val out =
        partial_row(b_, shape_, b_.argument_ptr(6), chunk_, b_.group_y(), b_.argument_i32(7), head);
    const val own_out = b_.offset(out, half_, 4 * warp_lanes * vectors_);
    for (std::uint32_t d = 0; d < vectors_; d++)
      b_.store_lanes(memory_type::f32, b_.offset(own_out, 4 * warp_lanes * d), sums[1 + d]);
    const val once = eq(half_, b_.i32(0));
    b_.store_if(once, memory_type::f32, b_.offset(out, 4 * shape_.head_size), maximum);
    b_.store_if(once, memory_type::f32, b_.offset(out, 4 * (shape_.head_size + 1)), sums[0]);
  }

  static constexpr std::uint32_t key_piece = 32, value_piece = 16;  // dimensions; keys

  const attention_shape& shape_;
  std::uint32_t group_, pass_, heads_;
  std::uint32_t vectors_;  // of 32 dimensions, that a warp has
  builder b_;
  std::uint32_t weights_, maxima_;
  val row_, chunk_, kv_head_, keys_, values_;
  val own_, half_;   // the warp's first head in its pass, and which of the two warps it is
  val first_, end_;  // the keys of the chunk that the row sees: [first, end)
};

}  // namespace

program wide_attention_partial(const attention_shape& shape) {
  return wide_partial_builder(shape).build();
}

int attention_warps(const attention_shape& shape) {
  if (shape.head_size % (2 * warp_lanes) != 0) return 1;
  const std::uint32_t pass = heads_per_pass(shape.heads / shape.kv_heads);
  return static_cast<int>(2 * pass / heads_of_warp(pass));
}

}  // namespace terrane::kernels
