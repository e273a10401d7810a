// What Mesa's software device (lavapipe 22.3) wants, found by reading its machine code.
//
// It holds every value as a vector of 8 lanes and loads global memory by a loop over the lanes,
// which takes each lane's address out of its vector. An argument plus a shifted 32-bit distance is
// put together after that, in one lane; other addresses are a 64-byte vector that is stored and
// read back for each lane, four times slower (with AVX-512). Hence `short_distances`, which this
// device always allows: it allocates 2 GiB at most. Loads of 64 bits halve the turns of the loop. A
// uniform load costs as much as a load of each lane.
//
// Not mended here: it ends an invocation's loops, silently, after 65,535 turns in all. The kernels
// of a transformer stay far below (a row of 32,768 weights takes about 1,200).
#include <algorithm>

#include <spirv/unified1/GLSL.std.450.h>

#include "kernels/spirv/lowering.hpp"

namespace terrane::kernels::spirv {

using spv::Op;

bool lowering::shares_words() const { return options_.lavapipe && options_.subgroup_lanes >= 4; }

// Words that all lanes want: each lane of a subgroup loads one, then they are passed round.
lowering::ids lowering::share_words(address from, std::size_t count) {
  ids all;
  std::uint32_t width = options_.subgroup_lanes;
  id lane = m_.once(Op::OpBitwiseAnd, m_.u32(), {local_index_, m_.u32_constant(width - 1)});
  for (std::size_t first = 0; first < count; first += width) {
    auto here = static_cast<std::uint32_t>(std::min<std::size_t>(width, count - first));
    id which = lane;
    if (here < width)
      which = m_.once(Op::OpExtInst, m_.u32(),
                      {m_.extended_set(), GLSLstd450UMin, lane, m_.u32_constant(here - 1)});
    id mine = load_element(memory_type::i32, moved_by_lane(moved(from, 4 * first), which, 4));
    for (std::uint32_t k = 0; k < here; k++) all.push_back(of_lane(mine, k));
  }
  return all;
}

// An address that is equal in all lanes, in a form that shows it: a select or a load hides it.
id lowering::same_address(id base) {
  if (options_.subgroup_lanes == 0) return base;
  m_.capability(spv::Capability::GroupNonUniform);
  m_.capability(spv::Capability::GroupNonUniformBallot);
  id scope = m_.u32_constant(word(spv::Scope::Subgroup));
  return m_.emit(Op::OpGroupNonUniformBroadcast, m_.u64(), {scope, base, m_.u32_constant(0)});
}

lowering::ids lowering::load_four_by_halves(address from) {
  ids words;
  for (std::uint64_t half : {0, 8}) {
    id both = load_raw(m_.u64(), moved(from, half), 8);
    words.push_back(m_.emit(Op::OpUConvert, m_.u32(), {both}));
    id above = m_.emit(Op::OpShiftRightLogical, m_.u64(), {both, m_.u32_constant(32)});
    words.push_back(m_.emit(Op::OpUConvert, m_.u32(), {above}));
  }
  return words;
}

// It takes x + 0 for x and x * 0 for 0 where it sees the zero, and so loses the sign of a zero.
// This zero it does not see: an index within a workgroup has no bit 31.
id lowering::hide_zero(id f) {
  if (f != m_.f32_constant(0)) return f;
  id bits = m_.once(Op::OpShiftRightLogical, m_.u32(), {local_index_, m_.u32_constant(31)});
  return m_.once(Op::OpBitcast, m_.f32(), {bits});
}

}  // namespace terrane::kernels::spirv
