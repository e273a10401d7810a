#include "kernels/ops/attention_fold.hpp"

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/attention_parts.hpp"

namespace terrane::kernels {

attention_fold::attention_fold(builder& b, const attention_shape& shape, val partials, val row,
                               val row_capacity, val position)
    : b_(b),
      shape_(shape),
      partials_(partials),
      row_(row),
      row_capacity_(row_capacity),
      position_(position) {}

// m, l, then the vectors of o.
vals attention_fold::load_partial(const part& of, val chunk) {
  const val p = partial_row(b_, shape_, partials_, chunk, row_, row_capacity_, of.head);
  vals state;
  for (val word : b_.load_words(b_.offset(p, 4 * shape_.head_size), 2))
    state.push_back(contract::as_float(word));
  const val o = b_.offset(p, of.dimension, 4);
  for (std::uint32_t v = 0; v < of.vectors; v++)
    state.push_back(
        b_.load_lanes(memory_type::f32, b_.offset(o, std::int64_t{4} * warp_lanes * v)));
  return state;
}

// The running state over the chunks in rising order.
vals attention_fold::result(val head, val dimension, std::uint32_t vectors) {
  const part of = {head, dimension, vectors};
  const val first = lshr(first_key_seen(b_, shape_, position_), 6), last = lshr(position_, 6);
  vals state = load_partial(of, first);
  const val end = last + b_.i32(1);
  val from = first + b_.i32(1);
  for (int bits : {3, 2, 1, 0}) {  // 8, 4, 2 and 1 chunks a turn, their loads in flight together
    const int step = 1 << bits;
    const val to = bits == 0 ? end : from + (lshr(end - from, bits) << bits);
    state = b_.loop(from, to, step, state, [&](val chunk, const vals& s) {
      std::vector<vals> partials;
      for (int k = 0; k < step; k++) partials.push_back(load_partial(of, chunk + b_.i32(k)));
      vals next = s;
      for (const vals& p : partials) next = folded(next, p);
      return next;
    });
    from = to;
  }
  const val inverse = contract::rcp(state[1]);
  vals out;
  for (std::uint32_t v = 0; v < vectors; v++)
    out.push_back(contract::store_rule(state[2 + v] * inverse));
  return out;
}

vals attention_fold::folded(const vals& state, const vals& partial) {
  val maximum = b_.select(lt(state[0], partial[0]), partial[0], state[0]);
  val a = contract::score_weight(state[0], maximum);
  val b = contract::score_weight(partial[0], maximum);
  vals next = {maximum};
  for (std::size_t k = 1; k < state.size(); k++)
    next.push_back(contract::mix(state[k], a, partial[k], b));
  return next;
}

}  // namespace terrane::kernels
