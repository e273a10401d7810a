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

constexpr std::uint32_t most_pairs = 16;         // of a row and a head: what a warp takes
constexpr std::uint32_t most_sums = 64;          // of values, in the registers of a lane
constexpr int keys_a_turn = 4;                   // of values
constexpr std::uint32_t dimensions_a_turn = 8;   // of keys, at most
constexpr std::uint32_t keys_in_registers = 32;  // of all dimensions of a turn

// Words between the weights of two keys: the weights of a key are read by fours, and those that
// lanes write together, of keys that follow each other, lie in different banks.
std::uint32_t weight_stride_of(std::uint32_t pairs) { return 4 * (((pairs + 3) / 4) | 1); }

// One warp for a chunk, a K/V head and a tile of rows; the query heads that share the K/V head, a
// few at a time. Scores: a row has 32 / rows lanes, each with 2 * rows neighbouring keys, which one
// word of q serves: it is loaded for every lane that it is used in. Values: half of the lanes
// have half of the pairs of a row and a head, so that a value serves many pairs and a weight many
// values; a lane has a few neighbouring dimensions of each 64. Rows of one session that see the
// chunk go together; else each by itself.
class tiled_partial_builder {
 public:
  tiled_partial_builder(const attention_shape& shape, std::uint32_t rows)
      : shape_(shape),
        tile_(rows),
        b_("attention_partial"),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        vectors_(shape.head_size / (2 * warp_lanes)),
        weights_(b_.shared(page_positions * weight_stride_of(rows * pass_))) {
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

  std::uint32_t pairs(const seen_rows& rows) const {
    return static_cast<std::uint32_t>(rows.size()) * pass_;
  }

  // How the lanes of a warp share the keys of a chunk: row r has the r-th `lanes` of them, each
  // with `keys` neighbouring keys.
  struct key_shares {
    std::uint32_t rows, lanes, keys;
    explicit key_shares(std::size_t count)
        : rows(static_cast<std::uint32_t>(count)),
          lanes(warp_lanes / rows),
          keys(page_positions / lanes) {
      assert(std::has_single_bit(count) && count <= 4 && "rows of a tile: attention_rows()");
    }
  };

  val lane_in_row(const key_shares& s) { return b_.lane() & b_.u32(s.lanes - 1); }
  val row_of_lane(const key_shares& s) { return lshr(b_.lane(), std::countr_zero(s.lanes)); }

  // What `of` says of a lane's own row.
  val own(const key_shares& s, const std::function<val(std::size_t row)>& of) {
    val mine = of(0);
    for (std::uint32_t r = 1; r < s.rows; r++)
      mine = b_.select(eq(row_of_lane(s), b_.u32(r)), of(r), mine);
    return mine;
  }

  // Of each head the sums of products with the lane's keys, in rising d.
  vals scores(const seen_rows& rows, val head) {
    const key_shares s(rows.size());
    const std::uint32_t size = shape_.head_size;
    const val row = own(s, [&](std::size_t r) { return rows[r].row; });
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
  vals with_products(const key_shares& s, vals sums, val q, val keys) {
    vals halves;  // of each dimension, the lane's keys
    for (std::int64_t k = 0; k < 4; k++) {
      const val at = b_.offset(keys, 2 * page_positions * k);
      const vals words = s.keys == 2 ? vals{b_.load(memory_type::i32, at)}
                                     : b_.load_words(at, static_cast<int>(s.keys / 2));
      for (val two : words) add_halves(halves, two);
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

  void add_halves(vals& to, val two) {
    to.push_back(b_.half_number(two & b_.u32(0xffffu)));
    to.push_back(b_.half_number(lshr(two, 16)));
  }

  // Pairs of a head and a row are counted row by row within a head. The weights of a key lie
  // together, one a pair. Keys lie as lanes write them: the first of each lane, then the second.
  val place_of(const key_shares& s, val key) {
    return (key & b_.u32(s.keys - 1)) * b_.u32(s.lanes) + lshr(key, std::countr_zero(s.keys));
  }
  val weights_at(const key_shares& s, val place) {
    return b_.u32(weights_) + place * b_.u32(weight_stride_of(s.rows * pass_));
  }

  // Writes p of every key, row and head to shared memory, 0 where the row does not see the key;
  // returns the maxima, by pair.
  vals write_weights(const seen_rows& rows, const vals& sums) {
    const key_shares s(rows.size());
    const val least = b_.u32(0x80000000u), zero = b_.f32(0.0f);
    const val first = own(s, [&](std::size_t r) { return rows[r].first; });
    const val end = own(s, [&](std::size_t r) { return rows[r].end; });
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
        maxima[h * s.rows + r] = contract::from_order_bits(b_.unary(opcode::lane_max, of_row));
      }
      const val maximum = own(s, [&](std::size_t r) { return maxima[h * s.rows + r]; });
      const val pair = row_of_lane(s) + b_.u32(h * s.rows);
      for (std::uint32_t k = 0; k < s.keys; k++) {
        const val p = contract::round_to_f16(contract::score_weight(scaled[k], maximum));
        const val place = b_.u32(k * s.lanes) + lane_in_row(s);
        b_.shared_store(weights_at(s, place) + pair, b_.select(seen[k], p, zero));
      }
    }
    return maxima;
  }

  // How the lanes of a warp share the values of a key: `pairs` of them a turn, and of these each of
  // the groups of lanes an equal part, with 2 * groups neighbouring dimensions of each 64 a lane.
  struct value_shares {
    std::uint32_t pairs, groups, each, dimensions;
    value_shares(std::uint32_t of, std::uint32_t head_size) : pairs(of) {
      while (pairs % 2 == 0 && pairs * head_size / warp_lanes > most_sums) pairs /= 2;
      groups = pairs % 2 == 0 ? 2 : 1;
      each = pairs / groups;
      dimensions = 2 * groups;
    }
    std::uint32_t lanes() const { return warp_lanes / groups; }
  };

  // What a turn of the values is about: the lane's first pair of it, and where it is in a vector.
  struct value_turn {
    const seen_rows& rows;
    key_shares keys;
    value_shares shares;
    val first_pair, lane;
  };

  // The n-th pair of a lane.
  val pair_of(const value_turn& t, std::uint32_t n) { return t.first_pair + b_.u32(n); }

  // What `of` says of the row of the n-th pair.
  val of_pair(const value_turn& t, std::uint32_t n,
              const std::function<val(const seen_row& row)>& of) {
    const std::uint32_t rows = t.keys.rows;
    if (t.shares.each % rows == 0) return of(t.rows[n % rows]);
    const val row = pair_of(t, n) & b_.u32(rows - 1);
    val found = of(t.rows[0]);
    for (std::uint32_t r = 1; r < rows; r++)
      found = b_.select(eq(row, b_.u32(r)), of(t.rows[r]), found);
    return found;
  }

  // m, l and o of each row and head: left folds over the keys that the row sees.
  void write_partials(const seen_rows& rows, val head, const vals& maxima) {
    store_maxima_and_sums(rows, head, maxima);
    const value_shares v(pairs(rows), shape_.head_size);
    val lowest = rows[0].first, begin = lowest, end = rows[0].end, highest = end;
    for (const seen_row& r : rows) {
      lowest = smin(lowest, r.first);
      begin = smax(begin, r.first);
      end = smin(end, r.end);
      highest = smax(highest, r.end);
    }
    // All rows see the keys between `begin` and `end`; of these, whole turns go without asking.
    const val from = (begin + b_.i32(keys_a_turn - 1)) & b_.i32(-keys_a_turn);
    const val to = smax(from, end & b_.i32(-keys_a_turn));
    b_.loop(b_.i32(0), b_.u32(pairs(rows)), static_cast<int>(v.pairs), [&](val first) {
      const val group = lshr(b_.lane(), std::countr_zero(v.lanes()));
      const value_turn t{rows, key_shares(rows.size()), v, first + group * b_.u32(v.each),
                         b_.lane() & b_.u32(v.lanes() - 1)};
      vals sums(std::size_t{v.each} * v.dimensions * vectors_, b_.spread_to_lanes(b_.f32(0.0f)));
      if (shape_.window != 0) sums = add_asking(t, sums, lowest, smin(from, highest));
      sums = b_.loop(from, to, keys_a_turn, sums, [&](val key, const vals& carried) {
        vals next = carried;
        const val place = place_of(t.keys, key);  // those of the keys after it are near
        for (std::uint32_t k = 0; k < keys_a_turn; k++)
          next = with_value(t, next, key + b_.u32(k),
                            place + b_.u32(k % t.keys.keys * t.keys.lanes + k / t.keys.keys), {});
        return next;
      });
      sums = add_asking(t, sums, shape_.window != 0 ? smax(to, lowest) : to, highest);
      store(t, head, sums);
    });
  }

  // Keys [from, to), each for the rows that see it.
  vals add_asking(const value_turn& t, const vals& sums, val from, val to) {
    return b_.loop(from, to, 1, sums, [&](val key, const vals& carried) {
      vals seen;
      for (std::uint32_t n = 0; n < t.shares.each; n++)
        seen.push_back(of_pair(t, n, [&](const seen_row& row) {
          return both(negate(lt(key, row.first)), lt(key, row.end));
        }));
      return with_value(t, carried, key, place_of(t.keys, key), seen);
    });
  }

  // The o of the lane's pairs with one key more; of those that see it, where `seen` says which.
  vals with_value(const value_turn& t, vals sums, val key, val place, const vals& seen) {
    const val row =
        b_.offset(b_.offset(values_, key, 2 * shape_.head_size), t.lane, 2 * t.shares.dimensions);
    vals v;
    for (std::uint32_t n = 0; n < vectors_; n++) {
      const val at = b_.offset(row, std::int64_t{4} * warp_lanes * n);
      const vals words = t.shares.groups == 1
                             ? vals{b_.load(memory_type::i32, at)}
                             : b_.load_words(at, static_cast<int>(t.shares.groups));
      for (val two : words) add_halves(v, two);
    }
    const val weights = weights_at(t.keys, place) + t.first_pair;
    auto o = sums.begin();
    for (std::uint32_t n = 0; n < t.shares.each; n++) {
      const val p = b_.shared_load(scalar_type::f32, weights + b_.u32(n));
      for (std::size_t d = 0; d < v.size(); d++, o++) {
        const val more = b_.fma_exact(p, v[d], *o);
        *o = seen.empty() ? more : b_.select(seen[n], more, *o);
      }
    }
    return sums;
  }

  // The partial of a pair; rows of a tile follow each other.
  val partial_of(const seen_rows& rows, val head, val pair) {
    const auto count = static_cast<std::uint32_t>(rows.size());
    return partial_row(b_, shape_, b_.argument_ptr(6), rows[0].chunk,
                       rows[0].y + (pair & b_.u32(count - 1)), b_.argument_i32(7),
                       head + lshr(pair, std::countr_zero(count)));
  }

  // m and l, a lane a pair; p of keys that a row does not see is 0 and adds nothing.
  void store_maxima_and_sums(const seen_rows& rows, val head, const vals& maxima) {
    const key_shares s(rows.size());
    const std::uint32_t count = pairs(rows);
    const val pair = smin(b_.lane(), b_.u32(count - 1));
    val maximum = maxima[0];
    for (std::uint32_t n = 1; n < count; n++)
      maximum = b_.select(eq(pair, b_.u32(n)), maxima[n], maximum);
    const vals zero = {b_.spread_to_lanes(b_.f32(0.0f))};
    const auto lanes_a_turn = static_cast<int>(16 / s.keys);
    const val total =
        b_.loop(b_.i32(0), b_.u32(s.lanes), lanes_a_turn, zero, [&](val lane, const vals& carried) {
          val sum = carried[0];
          for (std::uint32_t l = 0; l < static_cast<std::uint32_t>(lanes_a_turn); l++)
            for (std::uint32_t k = 0; k < s.keys; k++)
              sum = sum + b_.shared_load(scalar_type::f32,
                                         weights_at(s, lane + b_.u32(k * s.lanes + l)) + pair);
          return vals{sum};
        })[0];
    const val to = b_.offset(partial_of(rows, head, pair), 4 * shape_.head_size);
    const val has_one = ult(b_.lane(), b_.u32(count));
    b_.store_if(has_one, memory_type::f32, to, maximum);
    b_.store_if(has_one, memory_type::f32, b_.offset(to, 4), total);
  }

  void store(const value_turn& t, val head, const vals& sums) {
    auto o = sums.begin();
    for (std::uint32_t n = 0; n < t.shares.each; n++) {
      const val out =
          b_.offset(partial_of(t.rows, head, pair_of(t, n)), t.lane, 4 * t.shares.dimensions);
      for (std::uint32_t v = 0; v < vectors_; v++)
        for (std::uint32_t d = 0; d < t.shares.dimensions; d++, o++)
          b_.store(memory_type::f32, b_.offset(out, std::int64_t{4} * (2 * warp_lanes * v + d)),
                   *o);
    }
  }

  const attention_shape& shape_;
  std::uint32_t tile_;
  builder b_;
  std::uint32_t group_, pass_;
  std::uint32_t vectors_;  // of 64 dimensions
  std::uint32_t weights_;
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
