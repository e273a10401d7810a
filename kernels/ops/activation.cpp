// An activation function over a row, then the row in every kind the next matrices read.
//
// One workgroup a row, or several that share it; then each computes the norm for itself.
#include <algorithm>
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/row_norm.hpp"

namespace terrane::kernels {

namespace {

class activation_builder {
 public:
  explicit activation_builder(const activation_spec& spec)
      : spec_(spec), run_(spec.outputs.q8_by_256 ? 256 : warp_lanes), b_(name(spec), spec.warps) {
    if (spec.outputs.q8_by_32) quantised_.push_back({2, q8_row_layout(spec.k, 32)});
    if (spec.outputs.q8_by_256) quantised_.push_back({5, q8_row_layout(spec.k, 256)});
    assert(spec.k % warp_lanes == 0 && "K is a multiple of 32");
    assert(spec.parts >= 1 && "a row is shared by workgroups");
    row_ = b_.group_x();
    x_ = b_.offset(b_.argument_ptr(0), row_, 4 * spec.input_stride);
  }

  program build() {
    if (spec_.source == activation_source::rms_norm)
      factor_ = row_norm(b_, spec_.k, spec_.warps).factor(x_, spec_.eps);
    write_blocks();
    if (!quantised_.empty()) b_.barrier();
    for (const quantised_row& q : quantised_) write_sums(q);
    return b_.finish();
  }

 private:
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

  // A kind of quantised row that is written, and the argument that says where.
  struct quantised_row {
    int slot;
    q8_row_layout layout;
  };

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
      vals y;
      for (std::uint32_t v = 0; v < vectors; v++)
        y.push_back(element(first + b_.u32(v * warp_lanes)));
      std::vector<std::vector<contract::quantisation>> scales;
      for (const quantised_row& q : quantised_) scales.push_back(quantisations(y, q.layout.block));
      auto store = [&] {
        store_floats(first, y);
        for (std::size_t k = 0; k < quantised_.size(); k++)
          store_quantised(quantised_[k], first, y, scales[k]);
      };
      if (runs_fit())
        store();
      else
        b_.branch(lt(own, end), store);
    });
  }

  // Of each block of a run.
  std::vector<contract::quantisation> quantisations(const vals& y, std::uint32_t block) {
    std::vector<contract::quantisation> out;
    std::size_t vectors = block / warp_lanes;
    for (std::size_t first = 0; first < y.size(); first += vectors) {
      val largest = contract::magnitude_bits(y[first]);
      for (std::size_t v = first + 1; v < first + vectors; v++)
        largest = smax(largest, contract::magnitude_bits(y[v]));
      out.push_back(contract::quantise_block(b_.unary(opcode::lane_max, largest)));
    }
    return out;
  }

  val row_of(const quantised_row& q) {
    return b_.offset(b_.argument_ptr(q.slot), row_, q.layout.row_bytes);
  }

  void store_floats(val first, const vals& y) {
    for (std::size_t v = 0; v < y.size(); v++) {
      val at = first + b_.u32(static_cast<std::uint32_t>(v) * warp_lanes);
      auto place = [&](int slot) {
        return b_.offset(b_.offset(b_.argument_ptr(slot), row_, 4 * spec_.k), at, 4);
      };
      if (spec_.outputs.f16)
        b_.store_lanes(memory_type::f32, place(3), contract::round_to_f16(y[v]));
      if (spec_.outputs.f32) b_.store_lanes(memory_type::f32, place(4), y[v]);
    }
  }

  void store_quantised(const quantised_row& q, val first, const vals& y,
                       const std::vector<contract::quantisation>& scales) {
    std::size_t vectors = q.layout.block / warp_lanes;
    for (std::size_t v = 0; v < y.size(); v++) {
      val at = first + b_.u32(static_cast<std::uint32_t>(v) * warp_lanes);
      b_.store_lanes(memory_type::i8, b_.offset(row_of(q), at, 1),
                     contract::quantise(y[v], scales[v / vectors]));
    }
    val block = lshr(first, q.layout.block == 256 ? 8 : 5);
    val place = b_.offset(b_.offset(row_of(q), q.layout.scales_offset), block, 4);
    for (std::size_t k = 0; k < scales.size(); k++)
      b_.store(memory_type::f32, b_.offset(place, static_cast<std::int64_t>(4 * k)),
               scales[k].scale);
  }

  // Sums over 16 elements each, a lane a sum, from the bytes that the group has just stored. The
  // padding of q and of the sums lets every lane read and write.
  void write_sums(const quantised_row& q) {
    if (spec_.parts > 1) return write_sums_of_part(q);
    std::uint32_t sums = spec_.k / 16;
    b_.loop(b_.warp() << 5, b_.u32(sums), spec_.warps * warp_lanes, [&](val first) {
      val sum = b_.i32(0);
      for (val word : b_.load_lanes_x4(b_.offset(row_of(q), first, 16)))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      b_.store_lanes(memory_type::i32,
                     b_.offset(b_.offset(row_of(q), q.layout.sums_offset), first, 4), sum);
    });
  }

  // The same of a workgroup's own runs: past their end another workgroup reads and writes.
  void write_sums_of_part(const quantised_row& q) {
    std::uint32_t in_run = run_ / 16;
    val before = first_run() * b_.u32(in_run);
    val end = smin(before + b_.u32(runs_here() * in_run), b_.u32(spec_.k / 16));
    b_.loop(before + (b_.warp() << 5), end, spec_.warps * warp_lanes, [&](val first) {
      val index = first + b_.lane(), sum = b_.i32(0);
      val read = smin(index, end - b_.i32(1));
      for (val word : b_.load_words(b_.offset(row_of(q), read, 16), 4))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      b_.store_if(ult(index, end), memory_type::i32,
                  b_.offset(b_.offset(row_of(q), q.layout.sums_offset), index, 4), sum);
    });
  }

  const activation_spec& spec_;
  std::uint32_t run_;  // elements that a warp takes at a time
  std::vector<quantised_row> quantised_;
  builder b_;
  val row_, x_, factor_;
};

}  // namespace

program activation(const activation_spec& spec) { return activation_builder(spec).build(); }

grid activation_grid(const activation_spec& spec, std::uint32_t rows) { return {rows, spec.parts}; }

}  // namespace terrane::kernels
