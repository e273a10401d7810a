// The fold of a row's attention partials over its chunks, for the kernels that end with it.
// Internal to kernels/ops.
#pragma once

#include "kernels/lang/builder.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

class attention_fold {
 public:
  // `row`: of the partials, of which each chunk has `row_capacity`; `position`: the row's.
  attention_fold(builder& b, const attention_shape& shape, val partials, val row, val row_capacity,
                 val position);

  // What attention gives: `vectors` of 32 dimensions of a head, from `dimension` on, a lane each,
  // store rule applied.
  vals result(val head, val dimension, std::uint32_t vectors);

 private:
  struct part {
    val head, dimension;
    std::uint32_t vectors;
  };
  vals load_partial(const part& of, val chunk);
  vals folded(const vals& state, const vals& partial);

  builder& b_;
  const attention_shape& shape_;
  val partials_, row_, row_capacity_, position_;
};

}  // namespace terrane::kernels
