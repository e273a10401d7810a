// What a step hands out, in memory that the host reads, and what spares the host most of reading
// it.
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

namespace {

// A warp for the logits of a peak.
class logits_builder {
 public:
  explicit logits_builder(const logits_spec& spec) : spec_(spec), b_("logits") {
    assert(spec.stride % warp_lanes == 0 && spec.vocabulary <= spec.stride && "rows are padded");
    const val row = b_.group_y();
    x_ = b_.offset(b_.argument_ptr(0), row, (spec.in_pairs ? 8 : 4) * spec.stride);
    out_ = b_.offset(b_.argument_ptr(1), row, 4 * spec.stride);
    peaks_ = b_.offset(b_.argument_ptr(2), row, 4 * peaks_of(spec.vocabulary));
  }

  program build() {
    const val first = b_.group_x() * b_.u32(logits_of_a_peak);
    const val end = first + b_.u32(logits_of_a_peak);
    const vals none = {b_.spread_to_lanes(b_.u32(0x80000000U)), b_.spread_to_lanes(b_.i32(0))};
    const auto some = [&](val from, val to, int step) {
      return b_.loop(from, to, step, none, [&](val e, const vals& seen) {
        return with_vectors(seen, e, step / warp_lanes);
      });
    };
    const vals seen = b_.branch(
        ult(b_.u32(spec_.stride), end),
        [&] { return some(first, b_.u32(spec_.stride), warp_lanes); },
        [&] { return some(first, end, logits_of_a_peak); });
    const val largest = contract::from_order_bits(b_.unary(opcode::lane_max, seen[0]));
    const val is_finite = lt(b_.unary(opcode::lane_max, seen[1]), b_.u32(0x7f800000U));
    const val nan = b_.unary(opcode::bits_to_float, b_.u32(0x7fc00000U));
    b_.store(memory_type::f32, b_.offset(peaks_, b_.group_x(), 4),
             b_.select(is_finite, largest, nan));
    return b_.finish();
  }

 private:
  // `seen`: the largest logit of the lane's, ordered as an i32, and their largest magnitude.
  vals with_vectors(const vals& seen, val first, int count) {
    vals y, next = seen;
    for (int v = 0; v < count; v++) y.push_back(logit(first + b_.i32(v * warp_lanes)));
    for (int v = 0; v < count; v++) {
      const val e = first + b_.i32(v * warp_lanes);
      const val& own = y[static_cast<std::size_t>(v)];
      b_.store_lanes(memory_type::f32, b_.offset(out_, e, 4), own);
      const val counts = ult(e + b_.lane(), b_.u32(spec_.vocabulary));
      next[0] = smax(next[0], b_.select(counts, contract::order_bits(own), seen[0]));
      next[1] = smax(next[1], b_.select(counts, contract::magnitude_bits(own), seen[1]));
    }
    return next;
  }

  val logit(val first) {
    const val x = b_.offset(x_, first, 4), one = b_.load_lanes(memory_type::f32, x);
    if (!spec_.in_pairs) return one;
    const val rest = b_.offset(x, std::int64_t{4} * spec_.stride);
    return contract::store_rule(one + b_.load_lanes(memory_type::f32, rest));
  }

  const logits_spec& spec_;
  builder b_;
  val x_, out_, peaks_;
};

}  // namespace

std::uint32_t peaks_of(std::uint32_t vocabulary) {
  return (vocabulary + logits_of_a_peak - 1) / logits_of_a_peak;
}

program logits(const logits_spec& spec) { return logits_builder(spec).build(); }

grid logits_grid(const logits_spec& spec, std::uint32_t rows) {
  return {peaks_of(spec.vocabulary), rows};
}

}  // namespace terrane::kernels
