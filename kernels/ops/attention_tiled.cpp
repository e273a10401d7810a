// Attention partials of many rows: a warp takes a few rows that follow each other, so that a page
// is read, and its halves made floats, once for all of them. The same folds, so the same bits.
#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/ops/attention_parts.hpp"
#include "kernels/ops/attention_tile.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t most_pairs = 16;  // of a row and a head: what a warp takes

// One warp for a chunk, a K/V head and a tile of rows; the query heads that share the K/V head, a
// few at a time. Rows of one session that see the chunk go together; else each by itself.
class tiled_partial_builder {
 public:
  tiled_partial_builder(const attention_shape& shape, std::uint32_t rows)
      : shape_(shape),
        tile_(rows),
        b_("attention_partial"),
        group_(shape.heads / shape.kv_heads),
        pass_(heads_per_pass(group_)),
        shared_(b_.shared(attention_tile::shared_words(rows, pass_))) {
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
      const val keys = b_.offset(page, kv_head_, head_bytes);
      const val values = b_.offset(b_.offset(page, page_bytes(shape_) / 2), kv_head_, head_bytes);
      std::vector<attention_tile::seen_row> of_tile;
      for (const seen_row& r : rows) of_tile.push_back({r.row, r.first, r.end});
      const attention_tile tile(b_, shape_, of_tile, b_.u32(shared_));
      b_.loop(b_.i32(0), b_.u32(group_), static_cast<int>(pass_), [&](val done) {
        const val head = kv_head_ * b_.u32(group_) + done;
        tile.write_weights(tile.scores(b_.argument_ptr(0), head, keys));
        b_.barrier();
        store_maxima_and_sums(tile, rows[0], head);
        b_.loop(b_.i32(0), b_.u32(tile.pairs()), static_cast<int>(tile.pairs_a_turn()),
                [&](val turn) { store(tile, rows[0], head, tile.values(values, turn)); });
        b_.barrier();
      });
    });
  }

  // The partial of a pair; rows of a tile follow each other.
  val partial_of(const attention_tile& tile, const seen_row& first, val head, val pair) {
    const val row =
        tile.of_row(pair, [&](std::size_t r) { return b_.u32(static_cast<std::uint32_t>(r)); });
    return partial_row(b_, shape_, b_.argument_ptr(6), first.chunk, first.y + row,
                       b_.argument_i32(7), head + tile.head_of(pair));
  }

  // A lane a pair.
  void store_maxima_and_sums(const attention_tile& tile, const seen_row& first, val head) {
    const val pair = smin(b_.lane(), b_.u32(tile.pairs() - 1));
    const val to = b_.offset(partial_of(tile, first, head, pair), 4 * shape_.head_size);
    const val has_one = ult(b_.lane(), b_.u32(tile.pairs()));
    b_.store_if(has_one, memory_type::f32, to, tile.maximum(pair));
    b_.store_if(has_one, memory_type::f32, b_.offset(to, 4), tile.sum_of_weights(pair));
  }

  void store(const attention_tile& tile, const seen_row& first, val head,
             const attention_tile::values_share& share) {
    auto o = share.o.begin();
    for (std::uint32_t n = 0; n < share.pairs; n++) {
      const val out =
          b_.offset(partial_of(tile, first, head, share.first + b_.u32(n)), share.at, 4);
      for (std::uint32_t v = 0; v < shape_.head_size / (2 * warp_lanes); v++)
        for (std::uint32_t d = 0; d < share.dimensions; d++, o++)
          b_.store(memory_type::f32, b_.offset(out, std::int64_t{4} * (2 * warp_lanes * v + d)),
                   *o);
    }
  }

  const attention_shape& shape_;
  std::uint32_t tile_;
  builder b_;
  std::uint32_t group_, pass_;
  std::uint32_t shared_;
  val rows_, first_y_, kv_head_;
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
