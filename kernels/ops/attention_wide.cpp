// Attention partials where few rows leave a device idle: many warps for a page, so that a whole
// page is on its way from memory at once. The same folds, so the same bits.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <functional>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/pages.hpp"
#include "kernels/ops/shared_limit.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t most_piece_words = 2048;

// A piece, and q and the weights of the heads of a pass.
std::uint32_t shared_words(const attention_shape& shape) {
  return most_piece_words +
         heads_per_pass(shape.heads / shape.kv_heads) * (shape.head_size + page_positions);
}

// A chunk, a row and the heads of a pass in one workgroup, a warp a head; warps without one repeat
// the last. K and V come in pieces: every lane loads words of each, several pieces are under way at
// a time, and one after another passes through shared memory, which holds one. Scores: a lane has
// two neighbouring keys. Values: two neighbouring dimensions of every 64.
class wide_partial_builder {
 public:
  explicit wide_partial_builder(const attention_shape& shape)
      : shape_(shape),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        warps_(static_cast<std::uint32_t>(attention_warps(shape))),
        vectors_(shape.head_size / (2 * warp_lanes)),
        keys_a_piece_(std::bit_floor(most_piece_words / (shape.head_size / 2))),
        b_("attention_partial", attention_warps(shape)),
        piece_(b_.shared(most_piece_words)),
        q_(b_.shared(pass_ * shape.head_size)),
        weights_(b_.shared(pass_ * page_positions)) {}

  program build() {
    row_ = b_.group_y() + b_.argument_i32(8);
    // Before it is known whether the row is alive: the loads are on their way together.
    const val rows = step_rows(b_, 3), position = step_input(b_, 1, row_),
              slot = step_input(b_, 2, row_);
    b_.branch(lt(row_, rows), [&] { live_row(position, slot); });
    return b_.finish();
  }

 private:
  static constexpr std::uint32_t dimensions_a_piece = 64;
  static constexpr std::size_t pieces_under_way = 4;
  static constexpr int dimensions_a_turn = 16, keys_a_turn = 8;

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
    own_ = warps_ == pass_ ? b_.warp() : smin(b_.warp(), b_.u32(pass_ - 1));
    b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
      attend_pass(kv_head_ * b_.u32(group_) + done + own_);
      if (pass_ < group_) b_.barrier();
    });
  }

  void attend_pass(val head) {
    for (next_ = 0; next_ < pieces_under_way;) load_next();
    store_q(head);
    b_.barrier();
    vals sums(2, b_.spread_to_lanes(b_.f32(0.0f)));
    for (std::uint32_t k = 0; k < key_pieces(); k++) {
      take_piece([](val word, std::uint32_t) { return word; });
      sums = add_products(sums, k);
    }
    const val maximum = write_weights(sums);
    // l is the same for the warp, which the zero's type must say.
    vals state = {b_.unary(opcode::bits_to_float, b_.warp() & b_.i32(0))};
    state.insert(state.end(), std::size_t{2} * vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
    for (std::uint32_t v = 0; v < value_pieces(); v++) {
      take_piece([&](val word, std::uint32_t k) { return seen_value(word, v, k); });
      state = add_values(state, v);
    }
    write_partial(head, maximum, state);
  }

  std::uint32_t key_pieces() const { return shape_.head_size / dimensions_a_piece; }
  std::uint32_t value_pieces() const { return page_positions / keys_a_piece_; }
  std::uint32_t value_row_words() const { return shape_.head_size / 2; }

  // This lane's words of the next piece, of K and then of V.
  void load_next() {
    const std::uint32_t k = next_++;
    if (k >= key_pieces() + value_pieces()) return;
    const bool of_keys = k < key_pieces();
    const std::uint32_t words = of_keys ? most_piece_words : keys_a_piece_ * value_row_words();
    const val piece = of_keys ? b_.offset(keys_, std::int64_t{4} * k * words)
                              : b_.offset(values_, std::int64_t{4} * (k - key_pieces()) * words);
    vals own;
    for (std::uint32_t n = 0; n < words / (warps_ * warp_lanes); n++)
      own.push_back(b_.load_lanes(memory_type::i32, b_.offset(piece, place(n), 4)));
    loaded_.push_back(std::move(own));
  }

  // Where the warp's words number n of a piece start in it.
  val place(std::uint32_t n) { return (b_.u32(n * warps_) + b_.warp()) << 5; }

  // The piece that was asked for first comes into shared memory, as `as` changes its words.
  void take_piece(const std::function<val(val word, std::uint32_t n)>& as) {
    if (next_ > pieces_under_way) b_.barrier();  // the one before is done with
    const vals words = std::move(loaded_.front());
    loaded_.pop_front();
    for (std::uint32_t n = 0; n < words.size(); n++)
      b_.shared_store_lanes(b_.u32(piece_) + place(n), as(words[n], n));
    load_next();
    b_.barrier();
  }

  void store_q(val head) {
    const std::uint32_t size = shape_.head_size;
    const val q =
        b_.offset(b_.offset(b_.argument_ptr(0), row_, 4 * size * shape_.heads), head, 4 * size);
    for (std::uint32_t d = 0; d < size; d += warp_lanes)
      b_.shared_store_lanes(q_words() + b_.u32(d),
                            b_.load_lanes(memory_type::f32, b_.offset(q, std::int64_t{4} * d)));
  }

  val q_words() { return b_.u32(q_) + own_ * b_.u32(shape_.head_size); }
  val weight_words() { return b_.u32(weights_) + own_ * b_.u32(page_positions); }

  // The two halves of a word.
  std::array<val, 2> numbers(val word) {
    return {b_.half_number(word & b_.u32(0xffffu)), b_.half_number(lshr(word, 16))};
  }

  // The products' sums with the lane's two keys, in rising d, with a piece's dimensions.
  vals add_products(const vals& before, std::uint32_t piece) {
    return b_.loop(b_.i32(0), b_.u32(dimensions_a_piece), dimensions_a_turn, before,
                   [&](val d, const vals& carried) {
                     vals sums = carried;
                     const val q = q_words() + b_.u32(piece * dimensions_a_piece) + d;
                     const val keys = b_.u32(piece_) + (d << 5);
                     for (int n = 0; n < dimensions_a_turn; n++) {
                       const val qn = b_.shared_load(scalar_type::f32, q + b_.i32(n));
                       const auto two = numbers(
                           b_.shared_load_lanes(scalar_type::i32, keys + b_.i32(n * warp_lanes)));
                       for (std::size_t k = 0; k < 2; k++)
                         sums[k] = b_.fma_exact(qn, two[k], sums[k]);
                     }
                     return sums;
                   });
  }

  // Writes p of the lane's keys to shared memory, 0 of those that the row does not see; returns the
  // head's maximum.
  val write_weights(const vals& sums) {
    const val least = b_.u32(0x80000000u);
    vals scaled, seen;
    val largest = least;
    for (int k = 0; k < 2; k++) {
      const val key = (b_.lane() << 1) + b_.i32(k);
      seen.push_back(both(negate(lt(key, first_)), lt(key, end_)));
      scaled.push_back(sums[static_cast<std::size_t>(k)] * b_.f32(shape_.scale));
      largest = smax(largest, b_.select(seen.back(), contract::order_bits(scaled.back()), least));
    }
    const val maximum = contract::from_order_bits(b_.unary(opcode::lane_max, largest));
    for (std::size_t k = 0; k < 2; k++) {
      const val p = contract::round_to_f16(contract::score_weight(scaled[k], maximum));
      b_.shared_store(weight_words() + (b_.lane() << 1) + b_.i32(static_cast<int>(k)),
                      b_.select(seen[k], p, b_.f32(0.0f)));
    }
    return maximum;
  }

  // Words of keys that the row does not see may hold anything; 0 times 0 adds nothing.
  val seen_value(val word, std::uint32_t piece, std::uint32_t n) {
    const val row = b_.u32(n * warps_) + b_.warp();  // of 32 words
    const val key = b_.u32(piece * keys_a_piece_) + b_.binary(opcode::iudiv, row, b_.u32(vectors_));
    return b_.select(both(negate(lt(key, first_)), lt(key, end_)), word, b_.i32(0));
  }

  // l and o with a piece's keys: left folds.
  vals add_values(const vals& before, std::uint32_t piece) {
    return b_.loop(
        b_.i32(0), b_.u32(keys_a_piece_), keys_a_turn, before, [&](val key, const vals& carried) {
          vals sums = carried;
          const val p = weight_words() + b_.u32(piece * keys_a_piece_) + key;
          for (int n = 0; n < keys_a_turn; n++) {
            const val pn = b_.shared_load(scalar_type::f32, p + b_.i32(n));
            sums[0] = sums[0] + pn;
            const val row = b_.u32(piece_) + (key + b_.i32(n)) * b_.u32(value_row_words());
            for (std::uint32_t v = 0; v < vectors_; v++) {
              const auto two =
                  numbers(b_.shared_load_lanes(scalar_type::i32, row + b_.u32(v * warp_lanes)));
              for (std::size_t d = 0; d < 2; d++) {
                val& o = sums[1 + 2 * v + d];
                o = b_.fma_exact(pn, two[d], o);
              }
            }
          }
          return sums;
        });
  }

  // `state`: l, then two dimensions a vector of o.
  void write_partial(val head, val maximum, const vals& state) {
    const val out =
        partial_row(b_, shape_, b_.argument_ptr(6), chunk_, b_.group_y(), b_.argument_i32(7), head);
    auto store = [&](val to, val value) {
      if (warps_ == pass_)
        b_.store(memory_type::f32, to, value);
      else
        b_.store_if(ult(b_.warp(), b_.u32(pass_)), memory_type::f32, to, value);
    };
    const val own = b_.offset(out, b_.lane(), 8);
    for (std::uint32_t d = 0; d < 2 * vectors_; d++)
      store(b_.offset(own, std::int64_t{4} * (d / 2 * 2 * warp_lanes + d % 2)), state[1 + d]);
    store(b_.offset(out, 4 * shape_.head_size), maximum);
    store(b_.offset(out, 4 * (shape_.head_size + 1)), state[0]);
  }

  const attention_shape& shape_;
  std::uint32_t group_, pass_, warps_;
  std::uint32_t vectors_;  // of 64 dimensions
  std::uint32_t keys_a_piece_;
  builder b_;
  std::uint32_t piece_, q_, weights_;
  std::deque<vals> loaded_;  // pieces that are under way
  std::uint32_t next_ = 0;   // of K's and V's pieces, the next to be asked for
  val row_, chunk_, kv_head_, keys_, values_;
  val own_;          // the warp's head in its pass
  val first_, end_;  // the keys of the chunk that the row sees: [first, end)
};

}  // namespace

program wide_attention_partial(const attention_shape& shape) {
  return wide_partial_builder(shape).build();
}

int attention_warps(const attention_shape& shape) {
  if (shape.head_size % (2 * warp_lanes) != 0 || shared_words(shape) > shared_limit_words) return 1;
  return heads_per_pass(shape.heads / shape.kv_heads) <= 4 ? 4 : 8;
}

}  // namespace terrane::kernels
