#include "kernels/spirv/emit_spirv.hpp"

#include <algorithm>

#include "kernels/lang/without_look_ups.hpp"
#include "kernels/spirv/lowering.hpp"

namespace terrane::kernels {

namespace {

bool is_load(opcode op) {
  return op == opcode::load || op == opcode::load_words || op == opcode::load_lanes ||
         op == opcode::load_lanes_x4 || op == opcode::tile_load || op == opcode::tile_dot;
}

bool is_store(opcode op) {
  return op == opcode::store || op == opcode::store_lanes || op == opcode::tile_store;
}

template <class Wanted>
bool holds(const region& r, Wanted wanted) {
  return std::any_of(r.body.begin(), r.body.end(), [&](const instruction& in) {
    return wanted(in.op) || std::any_of(in.regions.begin(), in.regions.end(),
                                        [&](const region& inner) { return holds(inner, wanted); });
  });
}

// Looks for a load that may come after a store; a loop's body comes after itself.
bool loads_after_store(const region& r, bool& stored) {
  for (const instruction& in : r.body) {
    if (stored && is_load(in.op)) return true;
    if (is_store(in.op)) stored = true;
    for (const region& inner : in.regions) {
      if (in.op == opcode::loop && holds(inner, is_store)) stored = true;
      if (loads_after_store(inner, stored)) return true;
    }
  }
  return false;
}

bool is_reduction(opcode op) {
  return op == opcode::lane_max || op == opcode::lane_sum || op == opcode::lane_tree_add;
}

}  // namespace

std::vector<std::uint32_t> emit_spirv(const program& p, const spirv_options& options) {
  return spirv::lowering(without_look_ups(p), options).run();
}

std::uint32_t spirv_shared_bytes(const program& p, const spirv_options& options) {
  bool scratch = options.subgroup_lanes < warp_lanes && holds(p.body, is_reduction);
  std::uint32_t scratch_words = scratch ? 2 * warp_lanes * static_cast<std::uint32_t>(p.warps) : 0;
  return 4 * (p.shared_words + scratch_words);
}

namespace spirv {

bool reads_what_it_wrote(const program& p) {
  bool stored = false;
  return holds(p.body, [](opcode op) { return op == opcode::barrier; }) &&
         loads_after_store(p.body, stored);
}

}  // namespace spirv

}  // namespace terrane::kernels
