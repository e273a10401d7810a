// Attention of many rows whose pages are all on one device, in one kernel: partials of a chunk a
// warp, and their fold in the order of the chunks, so that no partial passes through memory. The
// same folds, so the same bits.
#include <algorithm>
#include <bit>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/attention_tile.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t group_warps = 4;
constexpr std::uint32_t most_pair_elements = 2048;  // of o: what a warp has in registers
constexpr std::uint32_t fold_words = 4;             // of a pair and chunk: a, b, l and none

// A workgroup for a tile of rows and the heads of a pass, a round for as many chunks as it has
// warps: each finds the m, l and o of its chunk; then all of them fold these o, each some pairs.
// Rows of one session go together; else each by itself.
class whole_attention_builder {
 public:
  explicit whole_attention_builder(const attention_shape& shape)
      : shape_(shape),
        tile_(whole_attention_rows(shape)),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        b_("attention", group_warps),
        warp_words_(words_of_warp()),
        warps_at_(b_.shared(group_warps * warp_words_)),
        folds_at_(b_.shared(group_warps * fold_words * tile_ * pass_)),
        unit_(shape.head_size % (4 * warp_lanes) == 0 ? 4 : 2) {}

  program build() {
    rows_ = step_rows(b_, 3);
    const int bits = std::countr_zero(tile_);
    // The last rows first: they see most.
    const val tile = lshr(rows_ + b_.u32(tile_ - 1), bits) - b_.i32(1) - b_.group_y();
    b_.branch(negate(lt(tile, b_.i32(0))), [&] { live_tile(tile << bits); });
    return b_.finish();
  }

 private:
  struct step_row {
    val index, position, slot;
    val live;  // whether it is a row
  };
  using step_rows_of_tile = std::vector<step_row>;

  // A chunk's weights lie where its o comes after them, half of the pairs at a time.
  std::uint32_t words_of_warp() const {
    const std::uint32_t pairs = tile_ * pass_;
    const std::uint32_t words = std::max(attention_tile::shared_words(tile_, pass_),
                                         pairs / pieces_of(pairs) * shape_.head_size);
    return (words + 3) / 4 * 4;
  }
  // Pieces that the pairs' o are folded in.
  static std::uint32_t pieces_of(std::uint32_t pairs) { return pairs % 4 == 0 ? 2 : 1; }

  // Of a row past the last one, the last one's.
  step_row look_at(val y) {
    step_row r;
    r.live = lt(y, rows_);
    r.index = smin(y, rows_ - b_.i32(1));
    r.position = step_input(b_, 1, r.index);
    r.slot = step_input(b_, 2, r.index);
    return r;
  }

  void live_tile(val first) {
    const std::uint32_t passes = group_ / pass_;
    kv_head_ = b_.binary(opcode::iudiv, b_.group_x(), b_.u32(passes));
    head_ = b_.group_x() * b_.u32(pass_);
    step_rows_of_tile rows;
    for (std::uint32_t k = 0; k < tile_; k++) rows.push_back(look_at(first + b_.u32(k)));
    val together = eq(rows[1].slot, rows[0].slot);
    for (std::uint32_t k = 2; k < tile_; k++)
      together = both(together, eq(rows[k].slot, rows[0].slot));
    b_.branch(
        together,
        [&] {
          attend(rows);
          return vals{};
        },
        [&] {
          b_.loop(b_.i32(0), b_.u32(tile_), 1, [&](val k) {
            const step_row alone = look_at(first + k);
            b_.branch(alone.live, [&] { attend({alone}); });
          });
          return vals{};
        });
  }

  val first_chunk(const step_row& r) { return lshr(first_key_seen(b_, shape_, r.position), 6); }

  void attend(const step_rows_of_tile& rows) {
    val first = first_chunk(rows[0]), last = lshr(rows[0].position, 6);
    for (const step_row& r : rows) {
      first = smin(first, first_chunk(r));
      last = smax(last, lshr(r.position, 6));
    }
    const auto pairs = static_cast<std::uint32_t>(rows.size()) * pass_;
    // M and L of the lane's pair, then O of the pairs that the warp folds.
    vals state(2 + std::size_t{folded_by_warp(pairs)} * shape_.head_size / warp_lanes,
               b_.spread_to_lanes(b_.f32(0.0f)));
    const val end = last + b_.i32(1);
    state = b_.loop(
        first, end, static_cast<int>(group_warps), state,
        [&](val chunk, const vals& carried) { return with_round(rows, carried, chunk, last); });
    const val pair = lane_pair(pairs);
    b_.shared_store(b_.u32(folds_at_) + pair, contract::rcp(state[1]));
    b_.barrier();
    store(rows, state);
    b_.barrier();
  }

  // Of all pieces, the pairs that a warp folds.
  static std::uint32_t folded_by_warp(std::uint32_t pairs) {
    const std::uint32_t pieces = pieces_of(pairs);
    return pieces * ((pairs / pieces + group_warps - 1) / group_warps);
  }
  val lane_pair(std::uint32_t pairs) { return smin(b_.lane(), b_.u32(pairs - 1)); }

  vals with_round(const step_rows_of_tile& rows, const vals& state, val chunk, val last) {
    const val own = chunk + b_.warp(), start = own << 6;
    page_entry entry(b_, b_.argument_ptr(4), rows[0].slot, b_.argument_i32(5), smin(own, last));
    const val present = both(negate(lt(last, own)), entry.present());
    std::vector<attention_tile::seen_row> of_tile;
    for (const step_row& r : rows) {
      const val seen_from = first_key_seen(b_, shape_, r.position) - start;
      const val end = smin(b_.u32(page_positions), (r.position - start) + b_.i32(1));
      of_tile.push_back({r.index, shape_.window == 0 ? b_.i32(0) : smax(b_.i32(0), seen_from),
                         b_.select(present, end, b_.i32(0))});
    }
    const attention_tile tile(b_, shape_, of_tile,
                              b_.warp() * b_.u32(warp_words_) + b_.u32(warps_at_));
    const std::uint32_t head_bytes = 2 * shape_.head_size * page_positions;
    const val page = b_.offset(entry.address(), kv_head_, head_bytes);
    const vals scores = b_.branch(
        present, [&] { return tile.scores(b_.argument_ptr(0), head_, page); },
        [&] { return tile.no_scores(); });
    tile.write_weights(scores);
    b_.barrier();
    const val maximum = write_factors(rows, tile, state[0], chunk);
    const attention_tile::values_share share =
        tile.values(b_.offset(page, page_bytes(shape_) / 2), b_.i32(0));
    const std::uint32_t pairs = tile.pairs(), pieces = pieces_of(pairs);
    const val count = smin(b_.u32(group_warps), last - chunk + b_.i32(1));
    vals next = {maximum, val()};
    const std::size_t of_piece = (state.size() - 2) / pieces;
    for (std::uint32_t piece = 0; piece < pieces; piece++) {
      b_.barrier();  // what was there has been read
      write_sums(share, piece, pieces);
      b_.barrier();
      const auto o = state.begin() + 2 + static_cast<std::ptrdiff_t>(piece * of_piece);
      const vals folded =
          b_.loop(b_.i32(0), count, 1, vals(o, o + of_piece),
                  [&](val k, const vals& carried) { return with_chunk(carried, pairs, piece, k); });
      next.insert(next.end(), folded.begin(), folded.end());
    }
    next[1] = b_.loop(b_.i32(0), count, 1, {state[1]}, [&](val k, const vals& sum) {
      const val at = fold_at(pairs, k, lane_pair(pairs));
      return vals{contract::mix(sum[0], word(at), word(at + b_.i32(2)), word(at + b_.i32(1)))};
    })[0];
    b_.barrier();
    return next;
  }

  // Writes a, b and l of each pair for this warp's chunk; returns M after the round, a lane a pair.
  // A row that does not see a chunk keeps what it has: a = 1, b = 0. From the first that it sees,
  // it takes all: a = 0, b = 1.
  val write_factors(const step_rows_of_tile& rows, const attention_tile& tile, val maximum,
                    val chunk) {
    const val pair = lane_pair(tile.pairs());
    const val from = tile.of_row(pair, [&](std::size_t r) { return first_chunk(rows[r]); });
    const val to = tile.of_row(pair, [&](std::size_t r) { return lshr(rows[r].position, 6); });
    const val zero = b_.f32(0.0f), one = b_.f32(1.0f);
    val top = maximum, before = maximum, after = maximum, own = maximum;
    for (std::uint32_t k = 0; k < group_warps; k++) {
      const val other = chunk + b_.u32(k);
      const val m = b_.shared_load(
          scalar_type::f32, tile.maximum_at(pair) + (b_.u32(k) - b_.warp()) * b_.u32(warp_words_));
      const val larger = both(lt(top, m), both(lt(from, other), negate(lt(to, other))));
      const val next = b_.select(either(larger, eq(from, other)), m, top);
      const val is_own = eq(b_.warp(), b_.u32(k));
      before = b_.select(is_own, top, before);
      after = b_.select(is_own, next, after);
      own = b_.select(is_own, m, own);
      top = next;
    }
    const val here = chunk + b_.warp();
    const val is_first = eq(from, here), sees = both(lt(from, here), negate(lt(to, here)));
    const val a =
        b_.select(is_first, zero, b_.select(sees, contract::score_weight(before, after), one));
    const val b =
        b_.select(is_first, one, b_.select(sees, contract::score_weight(own, after), zero));
    const val at = fold_at(tile.pairs(), b_.warp(), pair);
    b_.shared_store(at, a);
    b_.shared_store(at + b_.i32(1), b);
    b_.shared_store(at + b_.i32(2), tile.sum_of_weights(pair));
    return top;
  }

  val fold_at(std::uint32_t pairs, val k, val pair) {
    return b_.u32(folds_at_) + (k * b_.u32(pairs) + pair) * b_.u32(fold_words);
  }

  // Where a piece's pair, the n-th of so many, has its o of a warp's chunk.
  val sums_at(val warp, val n) {
    return b_.u32(warps_at_) + (warp * b_.u32(warp_words_) + n * b_.u32(shape_.head_size));
  }

  // A piece has so many of the pairs of each of the lanes that share a value.
  void write_sums(const attention_tile::values_share& share, std::uint32_t piece,
                  std::uint32_t pieces) {
    const std::uint32_t each = share.pairs / pieces, vectors = shape_.head_size / (2 * warp_lanes);
    const std::size_t of_pair = std::size_t{vectors} * share.dimensions;
    auto o = share.o.begin() + static_cast<std::ptrdiff_t>(piece * each * of_pair);
    const val at = sums_at(b_.warp(), share.group * b_.u32(each)) + share.at;
    for (std::uint32_t n = 0; n < each; n++)
      for (std::uint32_t v = 0; v < vectors; v++)
        for (std::uint32_t d = 0; d < share.dimensions; d++, o++)
          b_.shared_store(at + b_.u32(n * shape_.head_size + 2 * warp_lanes * v + d), *o);
  }

  // The n-th of a warp's pairs of a piece: its place in it, and its number.
  struct folded_pair {
    val place, pair;
    val is_one;  // or the last one again
  };
  folded_pair pair_of(std::uint32_t pairs, std::uint32_t piece, std::uint32_t n) {
    const std::uint32_t pieces = pieces_of(pairs), of_piece = pairs / pieces;
    const val wanted = b_.warp() + b_.u32(n * group_warps);
    folded_pair p;
    p.is_one = lt(wanted, b_.u32(of_piece));
    p.place = of_piece % group_warps == 0 ? wanted : smin(wanted, b_.u32(of_piece - 1));
    p.pair = p.place;
    if (pieces == 2) {  // halves of the halves that lanes have
      const val half = b_.u32(of_piece / 2);
      const val second = negate(lt(p.place, half));
      p.pair = p.place + b_.u32(piece * of_piece / 2) + b_.select(second, half, b_.i32(0));
    }
    return p;
  }

  val word(val at) { return b_.shared_load(scalar_type::f32, at); }

  // O of a piece with one chunk of the round more.
  vals with_chunk(const vals& state, std::uint32_t pairs, std::uint32_t piece, val k) {
    vals next;
    const std::uint32_t vectors = shape_.head_size / (unit_ * warp_lanes);
    const std::size_t of_pair = std::size_t{unit_} * vectors;
    for (std::uint32_t n = 0; next.size() < state.size(); n++) {
      const folded_pair p = pair_of(pairs, piece, n);
      const val at = fold_at(pairs, k, p.pair), a = word(at), b = word(at + b_.i32(1));
      const val o = sums_at(k, p.place) + b_.lane() * b_.u32(unit_);
      for (std::uint32_t e = 0; e < of_pair; e++) {
        const val more = word(o + b_.u32(e / unit_ * unit_ * warp_lanes + e % unit_));
        next.push_back(contract::mix(state[next.size()], a, more, b));
      }
    }
    return next;
  }

  void store(const step_rows_of_tile& rows, const vals& state) {
    const auto pairs = static_cast<std::uint32_t>(rows.size()) * pass_;
    std::vector<attention_tile::seen_row> of_tile(rows.size());
    const attention_tile tile(b_, shape_, of_tile, b_.u32(warps_at_));
    const std::uint32_t of_pair = shape_.head_size / warp_lanes;
    std::size_t o = 2;
    for (std::uint32_t piece = 0; piece < pieces_of(pairs); piece++)
      for (std::uint32_t n = 0; n < folded_by_warp(pairs) / pieces_of(pairs); n++) {
        const folded_pair p = pair_of(pairs, piece, n);
        auto of_row = [&](auto member) {
          return tile.of_row(p.pair, [&](std::size_t r) { return rows[r].*member; });
        };
        const val live = tile.of_row(
            p.pair, [&](std::size_t r) { return b_.select(rows[r].live, b_.i32(1), b_.i32(0)); });
        const val wanted = both(p.is_one, ne(live, b_.i32(0)));
        const val inverse = b_.shared_load(scalar_type::f32, b_.u32(folds_at_) + p.pair);
        const val row = b_.offset(b_.argument_ptr(6), of_row(&step_row::index),
                                  4 * shape_.head_size * shape_.heads);
        const val out =
            b_.offset(b_.offset(row, head_ + tile.head_of(p.pair), 4 * shape_.head_size),
                      b_.lane() * b_.u32(unit_), 4);
        b_.branch(wanted, [&] {
          for (std::uint32_t e = 0; e < of_pair; e++, o++)
            b_.store(memory_type::f32,
                     b_.offset(out, std::int64_t{4} * (e / unit_ * unit_ * warp_lanes + e % unit_)),
                     contract::store_rule(state[o] * inverse));
        });
      }
  }

  const attention_shape& shape_;
  std::uint32_t tile_, group_, pass_;
  builder b_;
  std::uint32_t warp_words_, warps_at_, folds_at_;  // of shared memory
  std::uint32_t unit_;                              // neighbouring dimensions that a lane folds
  val rows_, kv_head_, head_;
};

}  // namespace

std::uint32_t whole_attention_rows(const attention_shape& shape) {
  if (attention_rows(shape) == 1) return 0;
  const std::uint32_t pass = heads_per_pass(shape.heads / shape.kv_heads);
  const std::uint32_t rows =
      std::min(attention_rows(shape), std::bit_floor(most_pair_elements / shape.head_size / pass));
  return rows < 2 ? 0 : rows;
}

program whole_attention(const attention_shape& shape) {
  return whole_attention_builder(shape).build();
}

grid whole_attention_grid(const attention_shape& shape, std::uint32_t rows) {
  const std::uint32_t tile = whole_attention_rows(shape);
  return {shape.heads / heads_per_pass(shape.heads / shape.kv_heads), (rows + tile - 1) / tile};
}

}  // namespace terrane::kernels
