// A part's result, normalised, comes to the hidden state: the norms after attention and
// feed-forward that the Gemma family has.
#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/row_norm.hpp"

namespace terrane::kernels {

// One workgroup a row; warp w takes the vectors w, w + W, ...
program add_normalised(const add_normalised_spec& spec) {
  builder b("add_normalised", spec.warps);
  val row = b.group_x();
  val x = b.offset(b.argument_ptr(0), row, 4 * spec.k), w = b.argument_ptr(1);
  val hidden = b.offset(b.argument_ptr(2), row, 4 * spec.k);
  val factor = row_norm(b, spec.k, spec.warps).factor(x, spec.eps);
  b.loop(b.warp() << 5, b.u32(spec.k), spec.warps * warp_lanes, [&](val element) {
    auto load = [&](val base) {
      return b.load_lanes(memory_type::f32, b.offset(base, element, 4));
    };
    val y = contract::rms_element(load(x), factor, load(w));
    b.store_lanes(memory_type::f32, b.offset(hidden, element, 4),
                  contract::store_rule(load(hidden) + y));
  });
  return b.finish();
}

grid add_normalised_grid(std::uint32_t rows) { return {rows, 1}; }

}  // namespace terrane::kernels
