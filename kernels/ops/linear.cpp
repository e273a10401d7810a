// Matrices times activations: a workgroup computes 32 rows of one matrix for `columns` tokens, or
// each of its `row_warps` warps does.
//
// With one warp the segments of K are added one after another. With more, each warp computes every
// W-th segment into shared memory and one warp adds them in rising order: the same fold.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/formats/segment.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/shared_limit.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t segment_elements = 256;
// Asking for weights ahead pays where they are read once and most workgroups start together; but
// not for more than a device's cache holds of all of them.
constexpr std::uint32_t prefill_columns = 8, most_groups_together = 1024,
                        most_prefetched = 96u << 10;

std::uint32_t row_groups(const linear_matrix& m) { return (m.n + warp_lanes - 1) / warp_lanes; }

class linear_builder {
 public:
  explicit linear_builder(const linear_spec& spec)
      : spec_(spec),
        b_("linear", spec.warps * spec.row_warps),
        columns_(static_cast<int>(spec.columns)),
        segments_((spec.k + segment_elements - 1) / segment_elements) {
    assert(!spec.matrices.empty() && spec.k % warp_lanes == 0 && "a shape of the engine");
    assert((spec.rows_together == 1 || spec.rows_together % spec.columns == 0) &&
           "a tile of tokens lies in one of the rows");
    assert((spec.warps == 1 || spec.row_warps == 1) && "warps share segments or take rows");
    for (const linear_matrix& m : spec.matrices) groups_ += row_groups(m);
  }

  program build() {
    b_.fetch_ahead(spec_.fetch_ahead);
    first_column_ = b_.group_y() * b_.i32(columns_);
    group_ = b_.group_x();
    if (spec_.row_warps > 1) group_ = group_ * b_.i32(spec_.row_warps) + b_.warp();
    if (groups_ % static_cast<std::uint32_t>(spec_.row_warps) == 0)
      store(by_format(formats()));
    else
      b_.branch(ult(group_, b_.u32(groups_)), [&] { store(by_format(formats())); });
    return b_.finish();
  }

 private:
  void store(const vals& result) {
    val row_bytes = b_.u32(4 * spec_.output_stride);
    auto at = [&](int slot) {
      val row = b_.offset(b_.argument_ptr(slot), first_column_, 4 * spec_.output_stride);
      return b_.offset(row, result[1], 4);
    };
    std::vector<val> tiles = {result[0]};
    if (spec_.add_residual)
      tiles.push_back(b_.tile_load(scalar_type::f32, at(4), row_bytes, columns_));
    val out = b_.tile_map(tiles, columns_, [&](val, const vals& e) {
      return vals{contract::store_rule(spec_.add_residual ? e[1] + e[0] : e[0])};
    })[0];
    auto write = [&] { b_.tile_store(at(3), row_bytes, out); };
    if (spec_.warps == 1)
      write();
    else
      b_.branch(eq(b_.warp(), b_.i32(0)), write);
  }

  std::vector<const weight_format*> formats() const {
    std::vector<const weight_format*> distinct;
    for (const linear_matrix& m : spec_.matrices)
      if (std::ranges::find(distinct, m.format) == distinct.end()) distinct.push_back(m.format);
    return distinct;
  }

  // The sums (a tile) and the float offset of their rows in an output row. Matrices of one format
  // share code; different formats are sides of a branch.
  vals by_format(std::span<const weight_format* const> rest) {
    if (rest.size() == 1) return sums_of(*rest[0]);
    return b_.branch(
        is_format(*rest[0]), [&] { return sums_of(*rest[0]); },
        [&] { return by_format(rest.subspan(1)); });
  }

  // Whether this warp's rows belong to a matrix of the format.
  val is_format(const weight_format& format) {
    val any = ult(group_, b_.u32(0));
    std::uint32_t first = 0;
    for (const linear_matrix& m : spec_.matrices) {
      std::uint32_t end = first + row_groups(m);
      if (m.format == &format)
        any = either(any, both(negate(ult(group_, b_.u32(first))), ult(group_, b_.u32(end))));
      first = end;
    }
    return any;
  }

  vals sums_of(const weight_format& format) {
    val weights, group, offset;
    bool is_first = true;
    std::uint32_t first = 0;
    int slot = 5;
    for (const linear_matrix& m : spec_.matrices) {
      if (m.format == &format) {
        val own = group_ - b_.u32(first), pointer = b_.argument_ptr(slot);
        val own_offset = b_.u32(m.offset) + (own << 5);
        val here = ult(group_, b_.u32(first));
        weights = is_first ? pointer : b_.select(here, weights, pointer);
        group = is_first ? own : b_.select(here, group, own);
        offset = is_first ? own_offset : b_.select(here, offset, own_offset);
        is_first = false;
      }
      first += row_groups(m);
      slot++;
    }
    auto group_bytes = static_cast<std::uint32_t>(packed_group_bytes(format, spec_.k));
    val rows = b_.offset(weights, group, group_bytes);
    if (spec_.columns < prefill_columns && spec_.row_warps == 1 && first <= most_groups_together)
      b_.prefetch(rows, std::min(group_bytes, most_prefetched));
    return {spec_.warps == 1 ? serial_sum(format, rows) : shared_sum(format, rows), offset};
  }

  // The tile of one segment's sums. `segment` is an i32, the same for the warp.
  val segment_sum(const weight_format& format, val rows, val segment) {
    segment_context s{.b = b_, .columns = columns_};
    s.together = spec_.together;
    s.always_together = spec_.k / 32 % static_cast<std::uint32_t>(spec_.together) == 0;
    std::uint32_t blocks_per_segment = segment_elements / format.block_elements;
    s.weights = b_.offset(rows, segment, blocks_per_segment * format.block_bytes * warp_lanes);
    s.blocks = spec_.k % segment_elements == 0
                   ? b_.i32(8)
                   : smin(b_.i32(8), b_.u32(spec_.k / 32) - (segment << 3));
    if (format.activations == activation_kind::q8_by_32 ||
        format.activations == activation_kind::q8_by_256) {
      add_quantised(s, segment, format.activations == activation_kind::q8_by_32);
    } else {
      val base = b_.argument_ptr(format.activations == activation_kind::f16 ? 1 : 2);
      s.stride = b_.u32(4 * spec_.k);
      s.x = b_.offset(b_.offset(base, first_column_, 4 * spec_.k), segment, 4 * segment_elements);
    }
    return format.segment(s);
  }

  void add_quantised(segment_context& s, val segment, bool fine) {
    const std::uint32_t together = spec_.rows_together;
    const q8_row_layout layout(spec_.k, fine ? 32 : 256, together);
    val tile = b_.argument_ptr(fine ? 0 : 8), column = first_column_;
    if (together > 1) {
      tile = b_.offset(tile, lshr(column, std::countr_zero(together)), layout.tile_bytes);
      column = column & b_.u32(together - 1);
    }
    // Pieces of so many bytes alternate between the rows of a tile; a tile of one row is a row.
    auto piece = [&](std::uint32_t offset, std::uint32_t bytes, std::uint32_t in_segment) {
      const val first =
          b_.offset(b_.offset(tile, offset), column, together > 1 ? bytes : layout.tile_bytes);
      return b_.offset(first, segment, bytes * in_segment * together);
    };
    auto stride = [&](std::uint32_t bytes) {
      return b_.u32(together > 1 ? bytes : layout.tile_bytes);
    };
    s.rows_together = together;
    s.scale_for_each_block = fine;
    s.q = piece(0, 32, 8);
    s.scales = piece(layout.scales_offset, 4, fine ? 8 : 1);
    s.sums = piece(layout.sums_offset, 8, 8);
    s.stride = stride(32);
    s.scale_stride = stride(4);
    s.sum_stride = stride(8);
    if (fine) return;
    s.low_sums = piece(layout.low_sums_offset, 16, 1);
    s.high_sums = piece(layout.high_sums_offset, 16, 1);
    s.sum_byte_stride = stride(16);
    s.in_parts = spec_.in_parts;
    s.factors = piece(layout.factors_offset, 4, segment_elements / part_elements);
  }

  // Sums of segments start from +0 and so are never -0: a segment of one term need not start there.
  val serial_sum(const weight_format& format, val rows) {
    vals zero = {b_.tile_zero(scalar_type::f32, columns_)};
    return b_.loop(b_.i32(0), b_.u32(segments_), 1, zero, [&](val segment, const vals& total) {
      return vals{add(total[0], segment_sum(format, rows, segment))};
    })[0];
  }

  val add(val total, val tile) {
    std::array<val, 2> tiles = {total, tile};
    return b_.tile_map(tiles, columns_, [](val, const vals& e) { return vals{e[0] + e[1]}; })[0];
  }

  // As many segments at a time as shared memory holds.
  val shared_sum(const weight_format& format, val rows) {
    std::uint32_t tile_words = spec_.columns * warp_lanes;
    auto warps = static_cast<std::uint32_t>(spec_.warps);
    std::uint32_t most = std::max(shared_limit_words / tile_words / warps, 1u) * warps;
    std::uint32_t batch = std::min(most, segments_);
    if (slots_ == no_slots) slots_ = b_.shared(batch * tile_words);
    vals zero = {b_.tile_zero(scalar_type::f32, columns_)};
    return b_.loop(b_.i32(0), b_.u32(segments_), static_cast<int>(batch), zero,
                   [&](val first, const vals& total) {
                     val count = smin(b_.u32(batch), b_.u32(segments_) - first);
                     b_.loop(b_.warp(), count, spec_.warps, [&](val k) {
                       share(k, tile_words, segment_sum(format, rows, first + k));
                     });
                     b_.barrier();
                     vals next = b_.branch(
                         eq(b_.warp(), b_.i32(0)), [&] { return fold(total, count, tile_words); },
                         [&] { return total; });
                     if (batch < segments_) b_.barrier();
                     return next;
                   })[0];
  }

  val slot(val k, std::uint32_t tile_words, val column) {
    return b_.u32(slots_) + k * b_.u32(tile_words) + (column << 5);
  }

  void share(val k, std::uint32_t tile_words, val tile) {
    std::array<val, 1> tiles = {tile};
    b_.tile_map(tiles, columns_, [&](val column, const vals& e) {
      b_.shared_store_lanes(slot(k, tile_words, column), e[0]);
      return vals{};
    });
  }

  vals fold(const vals& total, val count, std::uint32_t tile_words) {
    return b_.loop(b_.i32(0), count, 1, total, [&](val k, const vals& carried) {
      return b_.tile_map(carried, columns_, [&](val column, const vals& e) {
        return vals{e[0] + b_.shared_load_lanes(scalar_type::f32, slot(k, tile_words, column))};
      });
    });
  }

  static constexpr std::uint32_t no_slots = ~0u;

  const linear_spec& spec_;
  builder b_;
  int columns_;
  std::uint32_t segments_;
  std::uint32_t groups_ = 0;  // of 32 rows, in all matrices
  std::uint32_t slots_ = no_slots;
  val first_column_;
  val group_;  // of 32 rows: the warp's own
};

}  // namespace

program linear(const linear_spec& spec) { return linear_builder(spec).build(); }

grid linear_grid(const linear_spec& spec, std::uint32_t rows) {
  std::uint32_t groups = 0;
  for (const linear_matrix& m : spec.matrices) groups += row_groups(m);
  const auto together = static_cast<std::uint32_t>(spec.row_warps);
  return {(groups + together - 1) / together, (rows + spec.columns - 1) / spec.columns};
}

}  // namespace terrane::kernels
