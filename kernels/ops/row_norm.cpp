#include "kernels/ops/row_norm.hpp"

#include <cassert>

#include "kernels/contract/scalars.hpp"

namespace terrane::kernels {

namespace {

constexpr int chain_vectors = 8;  // 256 chains / 32 lanes
constexpr int loads_together = 16;

}  // namespace

row_norm::row_norm(builder& b, std::uint32_t k, int warps) : b_(b), k_(k), warps_(warps) {
  assert(k % warp_lanes == 0 && "K is a multiple of 32");
  assert(warps >= 1 && chain_vectors % warps == 0 && "warps divide 8");
}

val row_norm::factor(val x, float eps) {
  vals chains = add_tail(x, full_chains(x));
  if (warps_ > 1) chains = share(chains);
  for (std::size_t half = chain_vectors / 2; half > 0; half /= 2)
    for (std::size_t v = 0; v < half; v++) chains[v] = chains[v] + chains[v + half];
  val sum = b_.unary(opcode::lane_tree_add, chains[0]);
  return contract::rms_factor(sum, 1.0f / static_cast<float>(k_), eps);
}

val row_norm::load(val x, val element) {
  return b_.load_lanes(memory_type::f32, b_.offset(x, element, 4));
}

int row_norm::own_vectors() const { return chain_vectors / warps_; }
val row_norm::own_vector(int t) { return b_.warp() + b_.i32(t * warps_); }

// This warp's chains over all whole runs of 256 elements.
vals row_norm::full_chains(val x) {
  vals zero(static_cast<std::size_t>(own_vectors()), b_.spread_to_lanes(b_.f32(0.0f)));
  const std::uint32_t runs = k_ / 256;
  // Runs a turn, their loads under way together.
  std::uint32_t turn = static_cast<std::uint32_t>(warps_ == 1 ? 1 : loads_together / own_vectors());
  while (turn > 1 && runs % turn != 0) turn /= 2;
  return b_.loop(b_.i32(0), b_.u32(runs * 256), static_cast<int>(turn * 256), zero,
                 [&](val first, const vals& chains) {
                   vals next = chains, e;
                   for (std::uint32_t r = 0; r < turn; r++)
                     for (int t = 0; t < own_vectors(); t++)
                       e.push_back(load(x, first + b_.u32(r * 256) + (own_vector(t) << 5)));
                   for (std::size_t k = 0; k < e.size(); k++) {
                     val& chain = next[k % next.size()];
                     chain = chain + e[k] * e[k];
                   }
                   return next;
                 });
}

// The last elements reach only the first chains.
vals row_norm::add_tail(val x, vals chains) {
  std::uint32_t whole = k_ / 256 * 256, vectors = (k_ - whole) / warp_lanes;
  if (vectors == 0) return chains;
  for (int t = 0; t < own_vectors(); t++) {
    val& chain = chains[static_cast<std::size_t>(t)];
    val vector = own_vector(t);
    chain = b_.branch(
        lt(vector, b_.u32(vectors)),
        [&] {
          val e = load(x, b_.u32(whole) + (vector << 5));
          return vals{chain + e * e};
        },
        [&] { return vals{chain}; })[0];
  }
  return chains;
}

// Every warp gets every warp's chains, in order of vectors.
vals row_norm::share(const vals& own) {
  std::uint32_t slots = b_.shared(chain_vectors * warp_lanes);
  for (int t = 0; t < own_vectors(); t++)
    b_.shared_store_lanes(b_.u32(slots) + (own_vector(t) << 5), own[static_cast<std::size_t>(t)]);
  b_.barrier();
  vals all;
  for (std::uint32_t v = 0; v < chain_vectors; v++)
    all.push_back(b_.shared_load_lanes(scalar_type::f32, b_.u32(slots + v * warp_lanes)));
  return all;
}

}  // namespace terrane::kernels
