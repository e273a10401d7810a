// An activation function over a row, then the row in every kind the next matrices read.
//
// One workgroup a row. The sum of squares keeps the contract's 256 chains: chain j is lane j % 32
// of vector j / 32, and a warp owns the vectors w, w + W, ... of every 256 elements.
#include <algorithm>
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

namespace {

constexpr int chain_vectors = 8;  // 256 chains / 32 lanes

class activation_builder {
 public:
  explicit activation_builder(const activation_spec& spec)
      : spec_(spec), run_(spec.outputs.q8_by_256 ? 256 : warp_lanes), b_(name(spec), spec.warps) {
    if (spec.outputs.q8_by_32) quantised_.push_back({2, q8_row_layout(spec.k, 32)});
    if (spec.outputs.q8_by_256) quantised_.push_back({5, q8_row_layout(spec.k, 256)});
    assert(spec.k % warp_lanes == 0 && "K is a multiple of 32");
    assert(spec.warps >= 1 && chain_vectors % spec.warps == 0 && "warps divide 8");
    row_ = b_.group_x();
    x_ = b_.offset(b_.argument_ptr(0), row_, 4 * spec.input_stride);
  }

  program build() {
    if (spec_.source == activation_source::rms_norm) factor_ = row_factor();
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
      case activation_source::plain:
        break;
    }
    return "activation";
  }

  val load(val base, val element) {
    return b_.load_lanes(memory_type::f32, b_.offset(base, element, 4));
  }

  // x * rsqrt: the row's factor from its sum of squares, the same in every warp.
  val row_factor() {
    vals chains = add_tail(full_chains());
    if (spec_.warps > 1) chains = share(chains);
    for (std::size_t half = chain_vectors / 2; half > 0; half /= 2)
      for (std::size_t v = 0; v < half; v++) chains[v] = chains[v] + chains[v + half];
    val sum = b_.unary(opcode::lane_tree_add, chains[0]);
    return contract::rms_factor(sum, 1.0f / static_cast<float>(spec_.k), spec_.eps);
  }

  int own_vectors() const { return chain_vectors / spec_.warps; }
  val own_vector(int t) { return b_.warp() + b_.i32(t * spec_.warps); }

  // This warp's chains over all whole runs of 256 elements.
  vals full_chains() {
    vals zero(static_cast<std::size_t>(own_vectors()), b_.spread_to_lanes(b_.f32(0.0f)));
    std::uint32_t whole = spec_.k / 256 * 256;
    return b_.loop(b_.i32(0), b_.u32(whole), 256, zero, [&](val first, const vals& chains) {
      vals next;
      for (int t = 0; t < own_vectors(); t++) {
        val x = load(x_, first + (own_vector(t) << 5));
        next.push_back(chains[static_cast<std::size_t>(t)] + x * x);
      }
      return next;
    });
  }

  // The last elements reach only the first chains.
  vals add_tail(vals chains) {
    std::uint32_t whole = spec_.k / 256 * 256, vectors = (spec_.k - whole) / warp_lanes;
    if (vectors == 0) return chains;
    for (int t = 0; t < own_vectors(); t++) {
      val& chain = chains[static_cast<std::size_t>(t)];
      val vector = own_vector(t);
      chain = b_.branch(
          lt(vector, b_.u32(vectors)),
          [&] {
            val x = load(x_, b_.u32(whole) + (vector << 5));
            return vals{chain + x * x};
          },
          [&] { return vals{chain}; })[0];
    }
    return chains;
  }

  // Every warp gets every warp's chains, in order of vectors.
  vals share(const vals& own) {
    std::uint32_t slots = b_.shared(chain_vectors * warp_lanes);
    for (int t = 0; t < own_vectors(); t++)
      b_.shared_store_lanes(b_.u32(slots) + (own_vector(t) << 5), own[static_cast<std::size_t>(t)]);
    b_.barrier();
    vals all;
    for (std::uint32_t v = 0; v < chain_vectors; v++)
      all.push_back(b_.shared_load_lanes(scalar_type::f32, b_.u32(slots + v * warp_lanes)));
    return all;
  }

  // 32 elements of the result.
  val element(val first) {
    val x = load(x_, first);
    switch (spec_.source) {
      case activation_source::rms_norm:
        return contract::rms_element(x, factor_, load(b_.argument_ptr(1), first));
      case activation_source::swiglu:
        return contract::store_rule(contract::silu(x) *
                                    load(b_.offset(x_, 4 * spec_.up_offset), first));
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

  // Warp w takes the runs w, w + W, ... of a quantisation block each (the larger, if both kinds are
  // written); a warp past the end repeats the last run without storing, so that all warps reach the
  // reductions together.
  void write_blocks() {
    std::uint32_t runs = spec_.k / run_, vectors = run_ / warp_lanes;
    auto warps = static_cast<std::uint32_t>(spec_.warps);
    b_.loop(b_.i32(0), b_.u32((runs + warps - 1) / warps), 1, [&](val turn) {
      val own = turn * b_.u32(warps) + b_.warp(), run = smin(own, b_.u32(runs - 1));
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
      if (runs % warps == 0)
        store();
      else
        b_.branch(lt(own, b_.u32(runs)), store);
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
  // padding of q to 512 bytes lets every lane read.
  void write_sums(const quantised_row& q) {
    std::uint32_t sums = spec_.k / 16;
    b_.loop(b_.warp() << 5, b_.u32(sums), spec_.warps * warp_lanes, [&](val first) {
      val index = first + b_.lane(), sum = b_.i32(0);
      for (val word : b_.load_words(b_.offset(row_of(q), index, 16), 4))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      b_.store_if(ult(index, b_.u32(sums)), memory_type::i32,
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

grid activation_grid(const activation_spec&, std::uint32_t rows) { return {rows, 1}; }

}  // namespace terrane::kernels
