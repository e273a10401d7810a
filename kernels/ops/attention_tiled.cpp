// Attention partials of many rows: a warp takes a few rows that follow each other, so that a page
// is read, and its halves made floats, once for all of them. The same folds, so the same bits.
#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t most_pairs = 16;         // of a row and a head, in the registers of a lane
constexpr int keys_a_turn = 4;                   // of values
constexpr std::uint32_t dimensions_a_turn = 8;   // of keys, at most
constexpr std::uint32_t keys_in_registers = 32;  // of all dimensions of a turn
constexpr std::uint32_t banks = 32;              // of shared memory

// Words between the weights of two pairs, such that lanes with different rows and neighbouring keys
// meet in different banks; where no stride does that, some lanes wait for each other.
std::uint32_t weight_stride_of(std::uint32_t rows, std::uint32_t pass) {
  for (std::uint32_t stride = page_positions; stride < page_positions + banks; stride++)
    if (stride * pass % banks == warp_lanes / rows) return stride;
  return page_positions + 2;
}

// One warp for a chunk, a K/V head and a tile of rows; the query heads that share the K/V head, a
// few at a time. Scores: a row has 32 / rows lanes, each with 2 * rows neighbouring keys, which one
// word of q serves: it is loaded for every lane that it is used in. Values: a lane has two
// neighbouring dimensions of each 64. Rows of one session that see the chunk go together;
// else each by itself.
class tiled_partial_builder {
 public:
  tiled_partial_builder(const attention_shape& shape, std::uint32_t rows)
      : shape_(shape),
        tile_(rows),
        b_("attention_partial"),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        vectors_(shape.head_size / (2 * warp_lanes)),
        weight_stride_(weight_stride_of(rows, pass_)),
        weights_(b_.shared(rows * pass_ * weight_stride_)) {
    assert(attention_rows(shape) >= rows && rows > 1 && "a shape of the engine");
  }

  program build() {
    rows_ = step_rows(b_, 3);
    first_y_ = b_.group_y() * b_.u32(tile_);
    b_.branch(is_live(first_y_), [&] { live_tile(); });
    return b_.finish();
  }

 private:
  // A row of the step, and what it sees of the chunk.
  struct seen_row {
    val y;  // of its partials
    val row, slot, chunk;
    val first, end;  // keys of the chunk: [first, end)
    val sees;        // whether it is a row, and there are any
  };
  using seen_rows = std::vector<seen_row>;

  val is_live(val y) { return both(lt(y, b_.argument_i32(7)), lt(y + b_.argument_i32(8), rows_)); }

  // Of a row past the last one, the last one's, so that all may be loaded.
  seen_row look_at(val y) {
    seen_row r;
    r.y = y;
    r.row = smin(y + b_.argument_i32(8), rows_ - b_.i32(1));
    const val position = step_input(b_, 1, r.row);
    r.slot = step_input(b_, 2, r.row);
    const val first = first_key_seen(b_, shape_, position);
    r.chunk = b_.binary(opcode::iudiv, b_.group_x(), b_.u32(shape_.kv_heads));
    if (shape_.window != 0) r.chunk = r.chunk + lshr(first, 6);
    const val start = r.chunk << 6;
    r.first = smax(b_.i32(0), first - start);
    r.end = smin(b_.u32(page_positions), (position - start) + b_.i32(1));
    r.sees = both(is_live(y), lt(r.first, r.end));
    return r;
  }

  void live_tile() {
    kv_head_ = b_.binary(opcode::iurem, b_.group_x(), b_.u32(shape_.kv_heads));
    seen_rows rows;
    for (std::uint32_t k = 0; k < tile_; k++) rows.push_back(look_at(first_y_ + b_.u32(k)));
    val together = rows[0].sees;
    for (std::uint32_t k = 1; k < tile_; k++) {
      const val same = both(eq(rows[k].slot, rows[0].slot), eq(rows[k].chunk, rows[0].chunk));
      together = both(together, both(rows[k].sees, same));
    }
    b_.branch(
        together,
        [&] {
          on_page(rows);
          return vals{};
        },
        [&] {
          b_.loop(b_.i32(0), b_.u32(tile_), 1, [&](val k) {
            const seen_row alone = look_at(first_y_ + k);
            b_.branch(alone.sees, [&] { on_page({alone}); });
          });
          return vals{};
        });
  }

  void on_page(const seen_rows& rows) {
    page_entry entry(b_, b_.argument_ptr(4), rows[0].slot, b_.argument_i32(5), rows[0].chunk);
    b_.branch(entry.present(), [&] {
      const val page = entry.address();
      const std::uint32_t head_bytes = 2 * shape_.head_size * page_positions;
      keys_ = b_.offset(page, kv_head_, head_bytes);
      values_ = b_.offset(b_.offset(page, page_bytes(shape_) / 2), kv_head_, head_bytes);
      b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
        const val head = kv_head_ * b_.u32(group_) + done;
        const vals maxima = write_weights(rows, scores(rows, head));
        b_.barrier();
        write_partials(rows, head, maxima);
        b_.barrier();
      });
    });
  }

  std::size_t pairs(const seen_rows& rows) const { return rows.size() * pass_; }

  // How the lanes of a warp share the keys of a chunk: row r has the r-th `lanes` of them, each
  // with `keys` neighbouring keys.
  struct shares {
    std::uint32_t rows, lanes, keys;
    explicit shares(std::size_t count)
        : rows(static_cast<std::uint32_t>(count)),
          lanes(warp_lanes / rows),
          keys(page_positions / lanes) {
      assert(std::has_single_bit(count) && count <= 4 && "rows of a tile: attention_rows()");
    }
  };

  val lane_in_row(const shares& s) { return b_.lane() & b_.u32(s.lanes - 1); }
  val row_of_lane(const shares& s) { return lshr(b_.lane(), std::countr_zero(s.lanes)); }

  // What `of` says of a lane's own row.
  val own(const seen_rows& rows, const std::function<val(std::size_t row)>& of) {
    const shares s(rows.size());
    val mine = of(0);
    for (std::size_t r = 1; r < rows.size(); r++)
      mine = b_.select(eq(row_of_lane(s), b_.u32(static_cast<std::uint32_t>(r))), of(r), mine);
    return mine;
  }

  // Of each head the sums of products with the lane's keys, in rising d.
  vals scores(const seen_rows& rows, val head) {
    const shares s(rows.size());
    const std::uint32_t size = shape_.head_size;
    const val row = own(rows, [&](std::size_t r) { return rows[r].row; });
    const val q =
        b_.offset(b_.offset(b_.argument_ptr(0), row, 4 * size * shape_.heads), head, 4 * size);
    const val keys = b_.offset(keys_, lane_in_row(s), 2 * s.keys);
    const vals zero(std::size_t{pass_} * s.keys, b_.spread_to_lanes(b_.f32(0.0f)));
    const auto dimensions =
        static_cast<int>(std::min(dimensions_a_turn, keys_in_registers / s.keys));
    return b_.loop(b_.i32(0), b_.u32(size), dimensions, zero, [&](val d, const vals& carried) {
      vals sums = carried;
      for (int four = 0; four < dimensions; four += 4)
        sums = with_products(s, sums, b_.offset(b_.offset(q, d, 4), std::int64_t{4} * four),
                             b_.offset(b_.offset(keys, d, 2 * page_positions),
                                       std::int64_t{2} * page_positions * four));
      return sums;
    });
  }

  // With four dimensions more, at q and at the lane's keys.
  vals with_products(const shares& s, vals sums, val q, val keys) {
    vals halves;  // of each dimension, the lane's keys
    for (std::int64_t k = 0; k < 4; k++) {
      const val at = b_.offset(keys, 2 * page_positions * k);
      const vals words = s.keys == 2 ? vals{b_.load(memory_type::i32, at)}
                                     : b_.load_words(at, static_cast<int>(s.keys / 2));
      for (val two : words) {
        halves.push_back(b_.half_number(two & b_.u32(0xffffu)));
        halves.push_back(b_.half_number(lshr(two, 16)));
      }
    }
    for (std::uint32_t h = 0; h < pass_; h++) {
      const vals words = b_.load_words(b_.offset(q, std::int64_t{4} * shape_.head_size * h), 4);
      for (std::size_t k = 0; k < 4; k++)
        for (std::size_t key = 0; key < s.keys; key++) {
          val& sum = sums[h * s.keys + key];
          sum = b_.fma_exact(contract::as_float(words[k]), halves[k * s.keys + key], sum);
        }
    }
    return sums;
  }

  // Writes p of every key, row and head to shared memory, 0 where the row does not see the key;
  // returns the maxima, of a row's heads after each other.
  vals write_weights(const seen_rows& rows, const vals& sums) {
    const shares s(rows.size());
    const val least = b_.u32(0x80000000u), zero = b_.f32(0.0f);
    const val first = own(rows, [&](std::size_t r) { return rows[r].first; });
    const val end = own(rows, [&](std::size_t r) { return rows[r].end; });
    const val first_key = lane_in_row(s) * b_.u32(s.keys);
    vals maxima(pairs(rows));
    for (std::uint32_t h = 0; h < pass_; h++) {
      val largest = least;
      vals scaled, seen;
      for (std::uint32_t k = 0; k < s.keys; k++) {
        const val key = first_key + b_.u32(k);
        scaled.push_back(sums[h * s.keys + k] * b_.f32(shape_.scale));
        seen.push_back(both(negate(lt(key, first)), lt(key, end)));
        largest = smax(largest, b_.select(seen[k], contract::order_bits(scaled[k]), least));
      }
      for (std::uint32_t r = 0; r < s.rows; r++) {
        const val of_row =
            s.rows == 1 ? largest : b_.select(eq(row_of_lane(s), b_.u32(r)), largest, least);
        maxima[r * pass_ + h] = contract::from_order_bits(b_.unary(opcode::lane_max, of_row));
      }
      const val maximum = own(rows, [&](std::size_t r) { return maxima[r * pass_ + h]; });
      const val pair = row_of_lane(s) * b_.u32(pass_) + b_.u32(h);
      for (std::uint32_t k = 0; k < s.keys; k++) {
        const val p = contract::round_to_f16(contract::score_weight(scaled[k], maximum));
        b_.shared_store(weights_of(pair) + (b_.u32(k * s.lanes) + lane_in_row(s)),
                        b_.select(seen[k], p, zero));
      }
    }
    return maxima;
  }

  val weights_of(val pair) { return b_.u32(weights_) + pair * b_.u32(weight_stride_); }

  // Keys lie as lanes wrote them: the first of each lane, then the second of each.
  val place_of(const shares& s, val key) {
    return (key & b_.u32(s.keys - 1)) * b_.u32(s.lanes) + lshr(key, std::countr_zero(s.keys));
  }

  // l and o of each row and head: left folds over the keys that the row sees.
  void write_partials(const seen_rows& rows, val head, const vals& maxima) {
    const shares s(rows.size());
    val begin = rows[0].first, end = rows[0].end;  // of the keys that all of them see
    for (const seen_row& r : rows) {
      begin = smax(begin, r.first);
      end = smin(end, r.end);
    }
    // By whole turns; where there are none, each row has its keys by itself.
    const val from = (begin + b_.i32(keys_a_turn - 1)) & b_.i32(-keys_a_turn);
    const val to = smax(from, end & b_.i32(-keys_a_turn));
    vals sums(pairs(rows) * 2 * vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
    if (shape_.window != 0)
      for (std::size_t k = 0; k < rows.size(); k++)
        add_alone(s, sums, k, rows[k].first, smin(from, rows[k].end));
    sums = b_.loop(from, to, keys_a_turn, sums, [&](val key, const vals& carried) {
      return with_values(s, carried, 0, rows.size(), key, keys_a_turn);
    });
    for (std::size_t k = 0; k < rows.size(); k++)
      add_alone(s, sums, k, shape_.window != 0 ? smax(to, rows[k].first) : to, rows[k].end);
    store(rows, head, maxima, sums);
  }

  // Keys [from, to) of one row.
  void add_alone(const shares& s, vals& sums, std::size_t row, val from, val to) {
    const std::size_t each = std::size_t{pass_} * 2 * vectors_;
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(row * each);
    vals own(first, first + static_cast<std::ptrdiff_t>(each));
    own = b_.loop(from, to, 1, own, [&](val key, const vals& carried) {
      return with_values(s, carried, row, 1, key, 1);
    });
    std::copy(own.begin(), own.end(), first);
  }

  // The o of `count` rows with some more keys.
  vals with_values(const shares& s, vals sums, std::size_t first_row, std::size_t count, val key,
                   int keys) {
    vals v;
    for (int k = 0; k < keys; k++) {
      const val row = b_.offset(values_, key + b_.i32(k), 2 * shape_.head_size);
      for (std::uint32_t n = 0; n < vectors_; n++) {
        const val two = b_.load_lanes(memory_type::i32, b_.offset(row, 4 * warp_lanes * n));
        v.push_back(b_.half_number(two & b_.u32(0xffffu)));
        v.push_back(b_.half_number(lshr(two, 16)));
      }
    }
    vals places;
    for (int k = 0; k < keys; k++) places.push_back(place_of(s, key + b_.i32(k)));
    const std::size_t each = v.size() / static_cast<std::size_t>(keys);
    for (std::size_t pair = 0; pair < count * pass_; pair++)
      for (std::size_t k = 0; k < static_cast<std::size_t>(keys); k++) {
        const auto of = static_cast<std::uint32_t>(first_row * pass_ + pair);
        const val at = b_.u32(weights_ + of * weight_stride_) + places[k];
        const val p = b_.shared_load(scalar_type::f32, at);
        for (std::size_t n = 0; n < each; n++) {
          val& o = sums[pair * each + n];
          o = b_.fma_exact(p, v[k * each + n], o);
        }
      }
    return sums;
  }

  // l of every pair, a lane a pair; p of keys that a row does not see is 0 and adds nothing.
  val weight_sums(const seen_rows& rows) {
    const shares s(rows.size());
    const auto lanes = static_cast<std::uint32_t>(std::bit_ceil(pairs(rows)));
    const auto last = static_cast<std::uint32_t>(pairs(rows) - 1);
    const val start = weights_of(smin(b_.lane() & b_.u32(lanes - 1), b_.u32(last)));
    const vals zero = {b_.spread_to_lanes(b_.f32(0.0f))};
    const auto lanes_a_turn = static_cast<int>(16 / s.keys);
    return b_.loop(
        b_.i32(0), b_.u32(s.lanes), lanes_a_turn, zero, [&](val lane, const vals& carried) {
          val sum = carried[0];
          for (int l = 0; l < lanes_a_turn; l++)
            for (std::uint32_t k = 0; k < s.keys; k++) {
              const val at = (start + lane) + b_.u32(k * s.lanes + static_cast<std::uint32_t>(l));
              sum = sum + b_.shared_load(scalar_type::f32, at);
            }
          return vals{sum};
        })[0];
  }

  void store(const seen_rows& rows, val head, const vals& maxima, const vals& sums) {
    const val l = weight_sums(rows);
    for (std::size_t pair = 0; pair < pairs(rows); pair++) {
      const auto h = static_cast<std::uint32_t>(pair % pass_);
      const val out = partial_row(b_, shape_, b_.argument_ptr(6), rows[0].chunk,
                                  rows[pair / pass_].y, b_.argument_i32(7), head + b_.u32(h));
      for (std::size_t n = 0; n < vectors_; n++)
        for (std::size_t k = 0; k < 2; k++) {
          const val to = b_.offset(
              b_.offset(out, static_cast<std::int64_t>(8 * warp_lanes * n + 4 * k)), b_.lane(), 8);
          b_.store(memory_type::f32, to, sums[(pair * vectors_ + n) * 2 + k]);
        }
      b_.store(memory_type::f32, b_.offset(out, 4 * shape_.head_size), maxima[pair]);
      const val own = eq(b_.lane(), b_.u32(static_cast<std::uint32_t>(pair)));
      const val place = b_.offset(b_.offset(out, 4 * (shape_.head_size + 1)),
                                  b_.lane() - b_.u32(static_cast<std::uint32_t>(pair)), 4);
      b_.store_if(own, memory_type::f32, place, l);
    }
  }

  const attention_shape& shape_;
  std::uint32_t tile_;
  builder b_;
  std::uint32_t group_, pass_;
  std::uint32_t vectors_;                  // of 64 dimensions
  std::uint32_t weight_stride_, weights_;  // words
  val rows_, first_y_, kv_head_, keys_, values_;
};

}  // namespace

program tiled_attention_partial(const attention_shape& shape, std::uint32_t rows) {
  return tiled_partial_builder(shape, rows).build();
}

std::uint32_t attention_rows(const attention_shape& shape) {
  if (shape.head_size % (2 * warp_lanes) != 0) return 1;
  const std::uint32_t pass = heads_per_pass(shape.heads / shape.kv_heads);
  return std::clamp(std::bit_floor(most_pairs / pass), 1u, 4u);
}

}  // namespace terrane::kernels
