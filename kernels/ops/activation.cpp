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
      : spec_(spec), layout_(spec.k), b_(name(spec), spec.warps) {
    assert(spec.k % warp_lanes == 0 && "K is a multiple of 32");
    assert(spec.warps >= 1 && chain_vectors % spec.warps == 0 && "warps divide 8");
    row_ = b_.group_x();
    x_ = b_.offset(b_.argument_ptr(0), row_, 4 * spec.input_stride);
  }

  program build() {
    if (spec_.source == activation_source::rms_norm) factor_ = row_factor();
    write_blocks();
    if (spec_.outputs.q8) write_sums();
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

  // Warp w takes the quantisation blocks w, w + W, ...; a warp past the end repeats the last block
  // without storing, so that all warps reach the reductions together.
  void write_blocks() {
    std::uint32_t blocks = spec_.k / layout_.block, vectors = layout_.block / warp_lanes;
    auto warps = static_cast<std::uint32_t>(spec_.warps);
    b_.loop(b_.i32(0), b_.u32((blocks + warps - 1) / warps), 1, [&](val turn) {
      val own = turn * b_.u32(warps) + b_.warp(), block = smin(own, b_.u32(blocks - 1));
      val first = block * b_.u32(layout_.block);
      vals y;
      for (std::uint32_t v = 0; v < vectors; v++)
        y.push_back(element(first + b_.u32(v * warp_lanes)));
      contract::quantisation block_quantisation;
      if (spec_.outputs.q8) block_quantisation = quantisation_of(y);
      auto store = [&] { store_block(block, first, y, block_quantisation); };
      if (blocks % warps == 0)
        store();
      else
        b_.branch(lt(own, b_.u32(blocks)), store);
    });
  }

  contract::quantisation quantisation_of(const vals& y) {
    val largest = contract::magnitude_bits(y[0]);
    for (std::size_t v = 1; v < y.size(); v++)
      largest = smax(largest, contract::magnitude_bits(y[v]));
    return contract::quantise_block(b_.unary(opcode::lane_max, largest));
  }

  val q8_row() { return b_.offset(b_.argument_ptr(2), row_, layout_.row_bytes); }

  void store_block(val block, val first, const vals& y, const contract::quantisation& q) {
    val half_row = b_.offset(b_.argument_ptr(3), row_, 4 * spec_.k);
    val float_row = b_.offset(b_.argument_ptr(4), row_, 4 * spec_.k);
    for (std::size_t v = 0; v < y.size(); v++) {
      val at = first + b_.u32(static_cast<std::uint32_t>(v) * warp_lanes);
      if (spec_.outputs.q8)
        b_.store_lanes(memory_type::i8, b_.offset(q8_row(), at, 1), contract::quantise(y[v], q));
      if (spec_.outputs.f16)
        b_.store_lanes(memory_type::f32, b_.offset(half_row, at, 4), contract::round_to_f16(y[v]));
      if (spec_.outputs.f32) b_.store_lanes(memory_type::f32, b_.offset(float_row, at, 4), y[v]);
    }
    if (spec_.outputs.q8)
      b_.store(memory_type::f32, b_.offset(b_.offset(q8_row(), layout_.scales_offset), block, 4),
               q.scale);
  }

  // Sums over 16 elements each, a lane a sum, from the bytes that the group has just stored. The
  // padding of q to 512 bytes lets every lane read.
  void write_sums() {
    b_.barrier();
    std::uint32_t sums = spec_.k / 16;
    b_.loop(b_.warp() << 5, b_.u32(sums), spec_.warps * warp_lanes, [&](val first) {
      val index = first + b_.lane(), sum = b_.i32(0);
      for (val word : b_.load_words(b_.offset(q8_row(), index, 16), 4))
        sum = b_.dot4(b_.u32(0x01010101u), word, sum, 1);
      b_.store_if(ult(index, b_.u32(sums)), memory_type::i32,
                  b_.offset(b_.offset(q8_row(), layout_.sums_offset), index, 4), sum);
    });
  }

  const activation_spec& spec_;
  q8_row_layout layout_;
  builder b_;
  val row_, x_, factor_;
};

}  // namespace

program activation(const activation_spec& spec) { return activation_builder(spec).build(); }

grid activation_grid(const activation_spec&, std::uint32_t rows) { return {rows, 1}; }

}  // namespace terrane::kernels
