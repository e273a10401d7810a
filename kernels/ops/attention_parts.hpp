// What the forms of attention share. Internal to kernels/ops.
#pragma once

#include "kernels/lang/builder.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

// Query heads that one pass over a page serves, of the `group` that share a K/V head: enough to
// read K and V few times, few enough for the registers of a lane.
std::uint32_t heads_per_pass(std::uint32_t group);

// The first key that a query at `position` sees.
val first_key_seen(builder& b, const attention_shape& shape, val position);

// Where the partial of a chunk, row and head lies.
val partial_row(builder& b, const attention_shape& shape, val partials, val chunk, val row,
                val row_capacity, val head);

// attention_partial() with a warp for so many rows: 2 to attention_rows().
program tiled_attention_partial(const attention_shape& shape, std::uint32_t rows);

// attention_partial() with a warp for each head of a pass, and four at least.
program wide_attention_partial(const attention_shape& shape);

}  // namespace terrane::kernels
