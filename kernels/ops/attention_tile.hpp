// What a warp does with a page for a few rows of a step and the heads of a pass. Internal to
// kernels/ops.
#pragma once

#include <functional>

#include "kernels/lang/builder.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

// A tile has 1, 2 or 4 of a step's rows; each makes a pair with each head of the pass. The page's
// halves are made floats once for all pairs. Scores: the lanes are in as many groups as there are
// rows, two at most, each with its share of the rows; a lane has neighbouring keys, so that a key
// serves the pairs of its group and a word of q all of its keys. Values: half of the lanes have
// half of the pairs, so that a value serves many pairs and a weight many values; a lane has a few
// neighbouring dimensions of each 64.
class attention_tile {
 public:
  struct seen_row {
    val index;       // in the step
    val first, end;  // keys of the page that it sees: [first, end), which may be empty
  };

  // `shared`: i32, where the warp has shared_words() to itself.
  attention_tile(builder& b, const attention_shape& shape, std::vector<seen_row> rows, val shared);

  static std::uint32_t shared_words(std::uint32_t rows, std::uint32_t pass);

  std::uint32_t pairs() const { return count_ * pass_; }
  // What `of` says of a pair's row, by its number in the tile; a pair's head, from the pass's
  // first.
  val of_row(val pair, const std::function<val(std::size_t row)>& of) const;
  val head_of(val pair) const;

  // Of the lane's pairs the sums of products with its keys, in rising d. `q`: f32
  // [row][head][head_size], `head`: the pass's first, `keys`: f16 [d][64].
  vals scores(val q, val head, val keys) const;
  vals no_scores() const;
  // Writes p of every key and pair to shared memory, 0 where the row does not see the key, and the
  // maxima. All warps of a group come here together. What follows is for after a barrier.
  void write_weights(const vals& scores) const;
  // m and l of a pair; m's word of shared memory, which other warps have as far into their own.
  val maximum(val pair) const;
  val maximum_at(val pair) const;
  val sum_of_weights(val pair) const;

  // What a lane has of o: of `pairs` pairs from `first` on the dimensions 64 v + at + d, all d of
  // all v of a pair side by side. Lanes of one `group` have the same pairs.
  struct values_share {
    val group, first, at;
    std::uint32_t pairs, dimensions;  // a pair has so many d
    vals o;
  };
  // Pairs whose o the registers of a warp have room for: a divisor of pairs().
  std::uint32_t pairs_a_turn() const { return pairs_a_turn_; }
  // o of the pairs_a_turn() pairs from `turn` on: left folds over the keys that their rows see.
  // `values`: f16 [64][d].
  values_share values(val values, val turn) const;

 private:
  val group() const;
  val lane_in_group() const { return b_.lane() & b_.u32(lanes_ - 1); }
  val own_row(std::uint32_t r, const std::function<val(std::size_t row)>& of) const;
  void add_products(vals& sums, const vals& q, val keys) const;
  void add_halves(vals& to, val two) const;
  val place_of(val key) const;
  val weights_at(val place) const;
  void add_value(values_share& share, val row, val weights, const vals& seen) const;
  vals add_asking(values_share share, val values, val from, val to) const;

  builder& b_;
  const attention_shape& shape_;
  std::vector<seen_row> rows_;
  val shared_;
  std::uint32_t count_, pass_;
  std::uint32_t groups_, own_rows_, lanes_, keys_;       // of scores: rows and keys of a lane
  std::uint32_t stride_;                                 // words between the weights of two keys
  std::uint32_t pairs_a_turn_, value_groups_, vectors_;  // vectors of 64 dimensions
};

}  // namespace terrane::kernels
