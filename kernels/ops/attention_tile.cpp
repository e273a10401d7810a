#include "kernels/ops/attention_tile.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t most_sums = 64;   // of values, in the registers of a lane
constexpr std::uint32_t keys_a_turn = 4;  // of values
constexpr int dimensions_a_turn = 8;      // of keys

// Words between the weights of two keys: the weights of a key are read by fours, and those that
// lanes write together, of keys that follow each other, lie in different banks.
std::uint32_t weight_stride_of(std::uint32_t pairs) { return 4 * (((pairs + 3) / 4) | 1); }

}  // namespace

attention_tile::attention_tile(builder& b, const attention_shape& shape, std::vector<seen_row> rows,
                               val shared)
    : b_(b),
      shape_(shape),
      rows_(std::move(rows)),
      shared_(shared),
      count_(static_cast<std::uint32_t>(rows_.size())),
      pass_(heads_per_pass(shape.heads / shape.kv_heads)),
      groups_(std::min(count_, 2U)),
      own_rows_(count_ / groups_),
      lanes_(warp_lanes / groups_),
      keys_(page_positions / lanes_),
      stride_(weight_stride_of(pairs())),
      pairs_a_turn_(pairs()),
      vectors_(shape.head_size / (2 * warp_lanes)) {
  assert(std::has_single_bit(count_) && count_ <= 4 && "rows of a tile: attention_rows()");
  while (pairs_a_turn_ % 2 == 0 && pairs_a_turn_ * shape.head_size / warp_lanes > most_sums)
    pairs_a_turn_ /= 2;
  value_groups_ = pairs_a_turn_ % 2 == 0 ? 2 : 1;
}

std::uint32_t attention_tile::shared_words(std::uint32_t rows, std::uint32_t pass) {
  return page_positions * weight_stride_of(rows * pass) + rows * pass;
}

// ---- who has what

val attention_tile::group() const { return lshr(b_.lane(), std::countr_zero(lanes_)); }

// What `of` says of the r-th row of the lane's group.
val attention_tile::own_row(std::uint32_t r, const std::function<val(std::size_t)>& of) const {
  return groups_ == 1 ? of(r) : b_.select(eq(group(), b_.u32(0)), of(r), of(own_rows_ + r));
}

// Pairs are counted group by group, then head by head, then row by row.
val attention_tile::of_row(val pair, const std::function<val(std::size_t)>& of) const {
  const val is_second = own_rows_ == 1 ? val() : ne(pair & b_.u32(1), b_.u32(0));
  auto in_group = [&](std::uint32_t first) {
    return own_rows_ == 1 ? of(first) : b_.select(is_second, of(first + 1), of(first));
  };
  if (groups_ == 1) return in_group(0);
  return b_.select(lt(pair, b_.u32(pass_ * own_rows_)), in_group(0), in_group(own_rows_));
}

val attention_tile::head_of(val pair) const {
  val in_group = pair;
  if (groups_ == 2) {
    const val half = b_.u32(pass_ * own_rows_);
    in_group = b_.select(lt(pair, half), pair, pair - half);
  }
  return lshr(in_group, std::countr_zero(own_rows_));
}

// ---- scores

vals attention_tile::no_scores() const {
  return vals(std::size_t{pass_} * own_rows_ * keys_, b_.spread_to_lanes(b_.f32(0.0f)));
}

vals attention_tile::scores(val q, val head, val keys) const {
  const std::uint32_t size = shape_.head_size;
  vals own_q;
  for (std::uint32_t r = 0; r < own_rows_; r++) {
    const val index = own_row(r, [&](std::size_t n) { return rows_[n].index; });
    own_q.push_back(b_.offset(b_.offset(q, index, 4 * size * shape_.heads), head, 4 * size));
  }
  const val own_keys = b_.offset(keys, lane_in_group(), 2 * keys_);
  return b_.loop(b_.i32(0), b_.u32(size), dimensions_a_turn, no_scores(),
                 [&](val d, const vals& carried) {
                   vals sums = carried;
                   for (int four = 0; four < dimensions_a_turn; four += 4) {
                     vals at;
                     for (val p : own_q)
                       at.push_back(b_.offset(b_.offset(p, d, 4), std::int64_t{4} * four));
                     add_products(sums, at,
                                  b_.offset(b_.offset(own_keys, d, 2 * page_positions),
                                            std::int64_t{2} * page_positions * four));
                   }
                   return sums;
                 });
}

// With four dimensions more, at the q of the lane's rows and at its keys.
void attention_tile::add_products(vals& sums, const vals& q, val keys) const {
  vals halves;  // of each dimension, the lane's keys
  for (std::int64_t k = 0; k < 4; k++) {
    const val at = b_.offset(keys, 2 * page_positions * k);
    const vals words = keys_ == 2 ? vals{b_.load(memory_type::i32, at)}
                                  : b_.load_words(at, static_cast<int>(keys_ / 2));
    for (val two : words) add_halves(halves, two);
  }
  val* sum = sums.data();
  for (std::uint32_t h = 0; h < pass_; h++)
    for (val own : q) {
      const vals words = b_.load_words(b_.offset(own, std::int64_t{4} * shape_.head_size * h), 4);
      for (std::size_t k = 0; k < 4; k++)
        for (std::size_t key = 0; key < keys_; key++)
          sum[key] = b_.fma_exact(contract::as_float(words[k]), halves[k * keys_ + key], sum[key]);
      sum += keys_;
    }
}

void attention_tile::add_halves(vals& to, val two) const {
  to.push_back(b_.half_number(two & b_.u32(0xffffu)));
  to.push_back(b_.half_number(lshr(two, 16)));
}

// ---- weights

// The weights of a key lie together, one a pair. Keys lie as lanes write them: the first of each
// lane, then the second.
val attention_tile::place_of(val key) const {
  return (key & b_.u32(keys_ - 1)) * b_.u32(lanes_) + lshr(key, std::countr_zero(keys_));
}

val attention_tile::weights_at(val place) const { return shared_ + place * b_.u32(stride_); }

void attention_tile::write_weights(const vals& scores) const {
  const val least = b_.u32(0x80000000u), zero = b_.f32(0.0f);
  const val first_key = lane_in_group() * b_.u32(keys_);
  std::vector<vals> seen(own_rows_);  // of a row: its keys of the lane
  for (std::uint32_t r = 0; r < own_rows_; r++) {
    const val end = own_row(r, [&](std::size_t n) { return rows_[n].end; }) - first_key;
    const val first = shape_.window == 0
                          ? val()
                          : own_row(r, [&](std::size_t n) { return rows_[n].first; }) - first_key;
    for (std::uint32_t k = 0; k < keys_; k++) {
      const val before_end = lt(b_.u32(k), end);
      seen[r].push_back(shape_.window == 0 ? before_end
                                           : both(negate(lt(b_.u32(k), first)), before_end));
    }
  }
  vals weights, maxima;  // of the lane's pairs
  for (std::uint32_t n = 0; n < pass_ * own_rows_; n++) {
    const vals& sees = seen[n % own_rows_];
    val largest = least;
    vals scaled;
    for (std::uint32_t k = 0; k < keys_; k++) {
      scaled.push_back(scores[n * keys_ + k] * b_.f32(shape_.scale));
      largest = smax(largest, b_.select(sees[k], contract::order_bits(scaled[k]), least));
    }
    val most = groups_ == 1 ? b_.unary(opcode::lane_max, largest) : val();
    if (groups_ == 2) {
      const val is_first = eq(group(), b_.u32(0));
      most = b_.select(is_first, b_.unary(opcode::lane_max, b_.select(is_first, largest, least)),
                       b_.unary(opcode::lane_max, b_.select(is_first, least, largest)));
    }
    maxima.push_back(contract::from_order_bits(most));
    for (std::uint32_t k = 0; k < keys_; k++) {
      const val p = contract::round_to_f16(contract::score_weight(scaled[k], maxima[n]));
      weights.push_back(b_.select(sees[k], p, zero));
    }
  }
  const val pair = group() * b_.u32(pass_ * own_rows_);
  const val at = weights_at(lane_in_group()) + pair;
  for (std::uint32_t k = 0; k < keys_; k++)
    for (std::uint32_t n = 0; n < maxima.size(); n++)
      b_.shared_store(at + b_.u32(k * lanes_ * stride_ + n), weights[n * keys_ + k]);
  const val maxima_at = maximum_at(pair);
  for (std::uint32_t n = 0; n < maxima.size(); n++)
    b_.shared_store(maxima_at + b_.u32(n), maxima[n]);
}

val attention_tile::maximum_at(val pair) const {
  return shared_ + b_.u32(page_positions * stride_) + pair;
}

val attention_tile::maximum(val pair) const {
  return b_.shared_load(scalar_type::f32, maximum_at(pair));
}

// In rising keys.
val attention_tile::sum_of_weights(val pair) const {
  const vals zero = {b_.spread_to_lanes(b_.f32(0.0f))};
  const std::uint32_t lanes_a_turn = 16 / keys_;
  return b_.loop(b_.i32(0), b_.u32(lanes_), static_cast<int>(lanes_a_turn), zero,
                 [&](val lane, const vals& carried) {
                   const val at = weights_at(lane) + pair;
                   val sum = carried[0];
                   for (std::uint32_t l = 0; l < lanes_a_turn; l++)
                     for (std::uint32_t k = 0; k < keys_; k++)
                       sum = sum + b_.shared_load(scalar_type::f32,
                                                  at + b_.u32((k * lanes_ + l) * stride_));
                   return vals{sum};
                 })[0];
}

// ---- values

attention_tile::values_share attention_tile::values(val values, val turn) const {
  val lowest = rows_[0].first, begin = lowest, end = rows_[0].end, highest = end;
  for (const seen_row& r : rows_) {
    lowest = smin(lowest, r.first);
    begin = smax(begin, r.first);
    end = smin(end, r.end);
    highest = smax(highest, r.end);
  }
  // All rows see the keys between `begin` and `end`; of these, whole turns go without asking.
  const val whole = b_.u32(keys_a_turn - 1), mask = b_.i32(-static_cast<int>(keys_a_turn));
  const val from = (begin + whole) & mask, to = smax(from, end & mask);
  const std::uint32_t lanes = warp_lanes / value_groups_;
  values_share share;
  share.pairs = pairs_a_turn_ / value_groups_;
  share.dimensions = 2 * value_groups_;
  share.group = lshr(b_.lane(), std::countr_zero(lanes));
  share.first = turn + share.group * b_.u32(share.pairs);
  share.at = (b_.lane() & b_.u32(lanes - 1)) * b_.u32(share.dimensions);
  share.o = vals(std::size_t{share.pairs} * share.dimensions * vectors_,
                 b_.spread_to_lanes(b_.f32(0.0f)));
  if (shape_.window != 0) share.o = add_asking(share, values, lowest, smin(from, highest));
  share.o =
      b_.loop(from, to, static_cast<int>(keys_a_turn), share.o, [&](val key, const vals& carried) {
        values_share next = share;
        next.o = carried;
        const val row = b_.offset(values, key, 2 * shape_.head_size);
        const val weights = weights_at(place_of(key)) + share.first;
        for (std::uint32_t k = 0; k < keys_a_turn; k++) {
          const std::uint32_t place = k % keys_ * lanes_ + k / keys_;
          add_value(next, b_.offset(row, std::int64_t{2} * shape_.head_size * k),
                    weights + b_.u32(place * stride_), {});
        }
        return next.o;
      });
  share.o = add_asking(share, values, shape_.window != 0 ? smax(to, lowest) : to, highest);
  return share;
}

// Keys [from, to), each for the rows that see it.
vals attention_tile::add_asking(values_share share, val values, val from, val to) const {
  return b_.loop(from, to, 1, share.o, [&](val key, const vals& carried) {
    values_share next = share;
    next.o = carried;
    vals seen;
    for (std::uint32_t n = 0; n < share.pairs; n++) {
      const val pair = share.first + b_.u32(n);
      const val first = of_row(pair, [&](std::size_t r) { return rows_[r].first; });
      const val end = of_row(pair, [&](std::size_t r) { return rows_[r].end; });
      seen.push_back(both(negate(lt(key, first)), lt(key, end)));
    }
    add_value(next, b_.offset(values, key, 2 * shape_.head_size),
              weights_at(place_of(key)) + share.first, seen);
    return next.o;
  });
}

// The o of the lane's pairs with one key more, whose values are at `row` and whose weights are at
// `weights`; of those that see it, where `seen` says which.
void attention_tile::add_value(values_share& share, val row, val weights, const vals& seen) const {
  const val own = b_.offset(row, share.at, 2);
  vals v;
  for (std::uint32_t n = 0; n < vectors_; n++) {
    const val at = b_.offset(own, std::int64_t{4} * warp_lanes * n);
    const vals words = share.dimensions == 2
                           ? vals{b_.load(memory_type::i32, at)}
                           : b_.load_words(at, static_cast<int>(share.dimensions / 2));
    for (val two : words) add_halves(v, two);
  }
  auto o = share.o.begin();
  for (std::uint32_t n = 0; n < share.pairs; n++) {
    const val p = b_.shared_load(scalar_type::f32, weights + b_.u32(n));
    for (std::size_t d = 0; d < v.size(); d++, o++) {
      const val more = b_.fma_exact(p, v[d], *o);
      *o = seen.empty() ? more : b_.select(seen[n], more, *o);
    }
  }
}

}  // namespace terrane::kernels
