// An activation function over a row, then the row in every kind the next matrices read.
//
// One workgroup a row, or several that share it; then each computes the norm for itself.
#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_fold.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/pages.hpp"
#include "kernels/ops/row_norm.hpp"

namespace terrane::kernels {

namespace {

class activation_builder {
 public:
  // `attended`: the row is what attention gives, from its partials.
  explicit activation_builder(const activation_spec& spec,
                              const attention_shape* attended = nullptr)
      : spec_(spec),
        attended_(attended),
        run_(spec.outputs.q8_by_256 ? 256 : warp_lanes),
        b_(attended != nullptr ? "attended_activation" : name(spec), spec.warps) {
    assert(spec.k % warp_lanes == 0 && "K is a multiple of 32");
    assert(spec.parts >= 1 && "a row is shared by workgroups");
    assert(!(spec.in_pairs && spec.in_parts) && "one of the two");
    row_ = b_.group_x();
    if (attended_ != nullptr) row_ = row_ + b_.argument_i32(8);
    if (spec.outputs.q8_by_32) add_quantised(2, 32);
    if (spec.outputs.q8_by_256) add_quantised(5, 256);
    if (attended_ == nullptr) x_ = b_.offset(b_.argument_ptr(0), row_, 4 * spec.input_stride);
    if (shares_runs())
      maxima_ = b_.shared(static_cast<std::uint32_t>(quantised_.size()) * run_warps);
  }

  program build() {
    if (spec_.source == activation_source::rms_norm && spec_.parts > 1 && spec_.k % 4 == 0)
      b_.prefetch(b_.argument_ptr(1), 4 * spec_.k);
    if (attended_ != nullptr) {
      const val rows = step_rows(b_, 6), position = step_input(b_, 1, row_);
      b_.branch(lt(row_, rows), [&] {
        fold_.emplace(b_, *attended_, b_.argument_ptr(0), b_.group_x(), b_.argument_i32(7),
                      position);
        write_row();
      });
      return b_.finish();
    }
    if (spec_.source == activation_source::rms_norm)
      factor_ = row_norm(b_, spec_.k, spec_.warps).factor(x_, spec_.eps);
    write_row();
    return b_.finish();
  }

 private:
  static constexpr int run_warps = 8;  // of a run of 256 elements that warps share

  void write_row() {
    if (shares_runs()) return write_shared_runs();
    write_blocks();
    if (!quantised_.empty()) b_.barrier();
    for (const quantised_row& q : quantised_) write_sums(q);
  }

  static const char* name(const activation_spec& spec) {
    switch (spec.source) {
      case activation_source::rms_norm:
        return "rms_norm";
      case activation_source::swiglu:
        return "swiglu";
      case activation_source::geglu:
        return "geglu";
      case activation_source::plain:
        break;
    }
    return "activation";
  }

  val load(val base, val element) {
    return b_.load_lanes(memory_type::f32, b_.offset(base, element, 4));
  }

  val up(val first) { return load(b_.offset(x_, 4 * spec_.up_offset), first); }

  // 32 elements of the result.
  val element(val first) {
    val x = load(x_, first);
    switch (spec_.source) {
      case activation_source::rms_norm:
        return contract::rms_element(x, factor_, load(b_.argument_ptr(1), first));
      case activation_source::swiglu:
        return contract::store_rule(contract::silu(x) * up(first));
      case activation_source::geglu:
        return contract::store_rule(contract::gelu(x) * up(first));
      case activation_source::plain:
        break;
    }
    return x;
  }

  // `count` times 32 elements of the result. Of a head of attention as many at once as there are.
  vals elements(val first, std::uint32_t count) {
    vals y;
    if (!fold_) {
      for (std::uint32_t v = 0; v < count; v++)
        y.push_back(element(first + b_.u32(v * warp_lanes)));
      return y;
    }
    const std::uint32_t size = attended_->head_size, of_head = size / warp_lanes;
    const bool fits = count % of_head == 0 || of_head % count == 0;
    const std::uint32_t together = fits ? std::min(count, of_head) : 1;
    for (std::uint32_t v = 0; v < count; v += together) {
      const val at = first + b_.u32(v * warp_lanes);
      const val head = b_.binary(opcode::iudiv, at, b_.u32(size));
      for (val o : fold_->result(head, at - head * b_.u32(size), together)) y.push_back(o);
    }
    return y;
  }

  // A kind of quantised row that is written, and the argument and the row that say where.
  struct quantised_row {
    int slot;
    q8_row_layout layout;
    val row;
    bool of_rest;  // of what rounding the one before has left
  };

  void add_quantised(int slot, std::uint32_t block) {
    const q8_row_layout layout(spec_.k, block, spec_.rows_together);
    if (!spec_.in_pairs) return quantised_.push_back({slot, layout, row_, false});
    quantised_.push_back({slot, layout, row_ << 1, false});
    quantised_.push_back({slot, layout, (row_ << 1) + b_.i32(1), true});
  }

  // Runs of a quantisation block each (the larger, if both kinds are written) that a workgroup
  // takes: [first_run(), first_run() + runs_here()), cut at the row's end.
  std::uint32_t runs() const { return spec_.k / run_; }
  std::uint32_t runs_here() const { return (runs() + spec_.parts - 1) / spec_.parts; }
  val first_run() { return spec_.parts == 1 ? b_.i32(0) : b_.group_y() * b_.u32(runs_here()); }
  // Whether every warp has a run of this row in every turn.
  bool runs_fit() const {
    return runs_here() % static_cast<std::uint32_t>(spec_.warps) == 0 && runs() % runs_here() == 0;
  }

  // Warp w takes the runs w, w + W, ... of the workgroup's; a warp past the end repeats the last
  // run without storing, so that all warps reach the reductions together.
  void write_blocks() {
    std::uint32_t vectors = run_ / warp_lanes;
    auto warps = static_cast<std::uint32_t>(spec_.warps);
    val before = first_run(), end = smin(before + b_.u32(runs_here()), b_.u32(runs()));
    b_.loop(b_.i32(0), b_.u32((runs_here() + warps - 1) / warps), 1, [&](val turn) {
      val own = before + turn * b_.u32(warps) + b_.warp();
      val run = smin(own, b_.u32(runs() - 1));
      val first = run * b_.u32(run_);
      const vals y = elements(first, vectors);
      std::vector<vals> rows;  // what each kind is made of
      std::vector<std::vector<quantised_vector>> roundings;
      for (const quantised_row& q : quantised_) {
        rows.push_back(q.of_rest ? rest_of(rows.back(), roundings.back()) : y);
        roundings.push_back(roundings_of(rows.back(), q));
      }
      auto store = [&] {
        store_floats(first, y);
        for (std::size_t k = 0; k < quantised_.size(); k++)
          store_quantised(quantised_[k], first, rows[k], roundings[k]);
      };
      if (runs_fit())
        store();
      else
        b_.branch(lt(own, end), store);
    });
  }

  // How 32 elements are rounded. `factor` where rows are rounded in parts.
  struct quantised_vector {
    contract::quantisation steps;
    val factor;
  };

  // Where there are too few runs for the warps of a workgroup, all of them share each.
  bool shares_runs() const {
    return run_ == 256 && spec_.warps == run_warps && runs_here() < std::uint32_t{run_warps};
  }

  // A warp has 32 elements of each run.
  void write_shared_runs() {
    if (runs_here() == 1 && spec_.parts <= runs()) return write_shared_run(first_run());
    const val before = first_run(), end = smin(before + b_.u32(runs_here()), b_.u32(runs()));
    b_.loop(before, end, 1, [&](val run) {
      write_shared_run(run);
      b_.barrier();
    });
  }

  void write_shared_run(val run) {
    const val piece = (run << 3) + b_.warp();
    const vals y = elements(piece << 5, 1);
    store_floats(piece << 5, y);
    vals row;
    std::vector<quantised_vector> rounding;
    for (std::size_t k = 0; k < quantised_.size(); k++) {
      const quantised_row& q = quantised_[k];
      row = q.of_rest ? rest_of(row, rounding) : y;
      rounding = {shared_rounding(q, k, row[0])};
      store_vector(q, run, piece, row[0], rounding[0]);
    }
  }

  quantised_vector shared_rounding(const quantised_row& q, std::size_t kind, val y) {
    const val own = b_.unary(opcode::lane_max, contract::magnitude_bits(y));
    if (q.layout.block != 256) return {contract::quantise_block(own), val()};
    const std::uint32_t slots = maxima_ + static_cast<std::uint32_t>(kind) * run_warps;
    b_.shared_store(b_.u32(slots) + b_.warp(), own);
    b_.barrier();
    vals all;
    for (std::uint32_t w = 0; w < run_warps; w++)
      all.push_back(b_.shared_load(scalar_type::i32, b_.u32(slots + w)));
    const contract::quantisation block = contract::quantise_block(largest_of(all));
    if (!in_parts(q)) return {block, val()};
    const contract::part_quantisation part = contract::quantise_part(block, own);
    return {part.steps, part.factor};
  }

  // What is kept of 32 elements, their two sums included.
  void store_vector(const quantised_row& q, val run, val piece, val y, const quantised_vector& by) {
    const val rounded = contract::quantise(y, by.steps);
    b_.store_lanes(memory_type::i8, place(q, 0, piece, 32), rounded);
    const val first =
        b_.unary(opcode::lane_sum, b_.select(ult(b_.lane(), b_.u32(16)), rounded, b_.i32(0)));
    const val both = b_.unary(opcode::lane_sum, rounded);
    val sum = b_.select(eq(b_.lane(), b_.i32(0)), first, both - first);
    const val has_one = ult(b_.lane(), b_.i32(2));
    b_.store_if(has_one, memory_type::i32,
                b_.offset(place(q, q.layout.sums_offset, piece, 8), b_.lane(), 4), sum);
    if (q.layout.block != 256)
      return b_.store(memory_type::f32, place(q, q.layout.scales_offset, piece, 4), by.steps.scale);
    b_.store_if(eq(b_.warp(), b_.i32(0)), memory_type::f32,
                place(q, q.layout.scales_offset, run, 4), by.steps.scale);
    if (in_parts(q)) {
      b_.store(memory_type::i32, place(q, q.layout.factors_offset, piece, 4), by.factor);
      sum = sum * by.factor;
    }
    auto byte_of = [&](std::uint32_t offset) {
      return b_.offset(place(q, offset, run, 16), (b_.warp() << 1) + b_.lane(), 1);
    };
    b_.store_if(has_one, memory_type::i8, byte_of(q.layout.low_sums_offset), low_part(sum));
    b_.store_if(has_one, memory_type::i8, byte_of(q.layout.high_sums_offset), high_part(sum));
  }

  bool in_parts(const quantised_row& q) const { return q.layout.block == 256 && spec_.in_parts; }

  std::vector<quantised_vector> roundings_of(const vals& y, const quantised_row& q) {
    std::vector<quantised_vector> out;
    const std::size_t vectors = q.layout.block / warp_lanes;
    for (std::size_t first = 0; first < y.size(); first += vectors) {
      vals largest;
      for (std::size_t v = first; v < first + vectors; v++)
        largest.push_back(contract::magnitude_bits(y[v]));
      if (in_parts(q))
        add_parts(largest, out);
      else
        out.insert(out.end(), vectors, {block_of(largest), val()});
    }
    return out;
  }

  vals rest_of(const vals& y, const std::vector<quantised_vector>& roundings) {
    vals rest;
    for (std::size_t v = 0; v < y.size(); v++) {
      const val q = contract::quantise(y[v], roundings[v].steps);
      const val rounded = b_.unary(opcode::i2f, q) * roundings[v].steps.scale;
      rest.push_back(contract::store_rule(y[v] - rounded));
    }
    return rest;
  }

  contract::quantisation block_of(const vals& magnitudes) {
    return contract::quantise_block(b_.unary(opcode::lane_max, largest_of(magnitudes)));
  }

  void add_parts(const vals& magnitudes, std::vector<quantised_vector>& to) {
    vals parts;
    for (val m : magnitudes) parts.push_back(b_.unary(opcode::lane_max, m));
    const contract::quantisation block = contract::quantise_block(largest_of(parts));
    for (val p : parts) {
      const contract::part_quantisation part = contract::quantise_part(block, p);
      to.push_back({part.steps, part.factor});
    }
  }

  static val largest_of(const vals& magnitudes) {
    val largest = magnitudes[0];
    for (val m : magnitudes) largest = smax(largest, m);
    return largest;
  }

  // The row's piece `piece` of those of `piece_bytes` that alternate between the rows of a tile;
  // `offset`: where they start in a tile.
  val place(const quantised_row& q, std::uint32_t offset, val piece, std::uint32_t piece_bytes) {
    const std::uint32_t together = q.layout.rows_together;
    val tile = b_.argument_ptr(q.slot), row = q.row;
    if (together > 1) row = lshr(q.row, std::countr_zero(together));
    tile = b_.offset(b_.offset(tile, row, q.layout.tile_bytes), offset);
    if (together > 1) tile = b_.offset(tile, q.row & b_.u32(together - 1), piece_bytes);
    return b_.offset(tile, piece, piece_bytes * together);
  }

  void store_floats(val first, const vals& y) {
    for (std::size_t v = 0; v < y.size(); v++) {
      val at = first + b_.u32(static_cast<std::uint32_t>(v) * warp_lanes);
      auto to = [&](int slot) {
        return b_.offset(b_.offset(b_.argument_ptr(slot), row_, 4 * spec_.k), at, 4);
      };
      if (spec_.outputs.f16) b_.store_lanes(memory_type::f32, to(3), contract::round_to_f16(y[v]));
      if (spec_.outputs.f32) b_.store_lanes(memory_type::f32, to(4), y[v]);
    }
  }

  void store_quantised(const quantised_row& q, val first, const vals& y,
                       const std::vector<quantised_vector>& roundings) {
    const std::size_t vectors = q.layout.block / warp_lanes;
    const val block = lshr(first, q.layout.block == 256 ? 8 : 5);
    for (std::size_t v = 0; v < y.size(); v++) {
      const val piece = lshr(first, 5) + b_.u32(static_cast<std::uint32_t>(v));
      b_.store_lanes(memory_type::i8, place(q, 0, piece, 32),
                     contract::quantise(y[v], roundings[v].steps));
      if (in_parts(q))
        b_.store(memory_type::i32, place(q, q.layout.factors_offset, piece, 4),
                 roundings[v].factor);
      if (v % vectors != 0) continue;
      const val own = block + b_.u32(static_cast<std::uint32_t>(v / vectors));
      b_.store(memory_type::f32, place(q, q.layout.scales_offset, own, 4),
               roundings[v].steps.scale);
    }
  }

  // Sums over 16 elements each, a lane a sum, from the bytes that the group has just stored. A
  // whole plain row's padding lets every lane read and write; else lanes past the end of the
  // workgroup's own runs do not.
  void write_sums(const quantised_row& q) {
    if (spec_.parts > 1 || q.layout.rows_together > 1) return write_sums_of_part(q);
    b_.loop(b_.warp() << 5, b_.u32(spec_.k / 16), spec_.warps * warp_lanes, [&](val first) {
      val sum = b_.i32(0);
      for (val word : b_.load_lanes_x4(place(q, 0, lshr(first, 1), 32)))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      b_.store_lanes(memory_type::i32, place(q, q.layout.sums_offset, lshr(first, 1), 8), sum);
      if (q.layout.block != 256) return;
      sum = times_factor(q, first + b_.lane(), sum);
      b_.store_lanes(memory_type::i8, place(q, q.layout.low_sums_offset, lshr(first, 4), 16),
                     low_part(sum));
      b_.store_lanes(memory_type::i8, place(q, q.layout.high_sums_offset, lshr(first, 4), 16),
                     high_part(sum));
    });
  }

  // A lane's sum of sixteen `index` (an i32 a lane), times the factor of its part.
  val times_factor(const quantised_row& q, val index, val sum) {
    if (!in_parts(q)) return sum;
    const val at = place(q, q.layout.factors_offset, lshr(index, 1), 4);
    return sum * b_.load(memory_type::i32, at);
  }

  val low_part(val sum) { return sum & b_.i32((1 << sum_low_bits) - 1); }
  val high_part(val sum) { return ashr(sum, sum_low_bits); }

  void write_sums_of_part(const quantised_row& q) {
    std::uint32_t in_run = run_ / 16;
    val before = first_run() * b_.u32(in_run);
    val end = smin(before + b_.u32(runs_here() * in_run), b_.u32(spec_.k / 16));
    b_.loop(before + (b_.warp() << 5), end, spec_.warps * warp_lanes, [&](val first) {
      val index = first + b_.lane(), sum = b_.i32(0);
      val read = smin(index, end - b_.i32(1));
      auto half_of = [&](std::uint32_t offset, val i, std::uint32_t half_bytes) {
        return b_.offset(place(q, offset, lshr(i, 1), 2 * half_bytes), i & b_.i32(1), half_bytes);
      };
      for (val word : b_.load_words(half_of(0, read, 16), 4))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      const val here = ult(index, end);
      b_.store_if(here, memory_type::i32, half_of(q.layout.sums_offset, index, 4), sum);
      if (q.layout.block != 256) return;
      sum = times_factor(q, read, sum);
      auto byte_of = [&](std::uint32_t offset) {
        return b_.offset(place(q, offset, lshr(index, 4), 16), index & b_.i32(15), 1);
      };
      b_.store_if(here, memory_type::i8, byte_of(q.layout.low_sums_offset), low_part(sum));
      b_.store_if(here, memory_type::i8, byte_of(q.layout.high_sums_offset), high_part(sum));
    });
  }

  const activation_spec& spec_;
  const attention_shape* attended_;
  std::uint32_t run_;  // elements that a warp, or all of them, takes at a time
  std::vector<quantised_row> quantised_;
  builder b_;
  std::uint32_t maxima_ = 0;  // where warps that share a run leave their largest magnitudes
  val row_, x_, factor_;
  std::optional<attention_fold> fold_;
};

}  // namespace

program activation(const activation_spec& spec) { return activation_builder(spec).build(); }

program attended_activation(const attention_shape& shape, const activation_spec& spec) {
  return activation_builder(spec, &shape).build();
}

grid activation_grid(const activation_spec& spec, std::uint32_t rows) { return {rows, spec.parts}; }

}  // namespace terrane::kernels
