// Rows in and out: the layout of quantised rows, embedding rows, gathered rows.
#include <algorithm>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/pages.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t group_elements = 256;  // elements of a row that one workgroup moves

std::uint32_t round_up(std::uint32_t n, std::uint32_t unit) { return (n + unit - 1) / unit * unit; }

// Runs body(element) for each 32 elements of this workgroup's part of a row of k: element is a
// multiple of 32.
void for_each_run(builder& b, std::uint32_t k, const std::function<void(val element)>& body) {
  val first = b.group_x() * b.u32(group_elements);
  val end = smin(first + b.u32(group_elements), b.u32(k));
  b.loop(first, end, warp_lanes, body);
}

}  // namespace

void activation_set::add(activation_kind kind) {
  q8_by_32 = q8_by_32 || kind == activation_kind::q8_by_32;
  q8_by_256 = q8_by_256 || kind == activation_kind::q8_by_256;
  f16 = f16 || kind == activation_kind::f16;
  f32 = f32 || kind == activation_kind::f32;
}

q8_row_layout::q8_row_layout(std::uint32_t k, std::uint32_t block_elements, std::uint32_t rows)
    : block(block_elements),
      rows_together(rows),
      scales_offset(rows * round_up(k, 512)),
      sums_offset(scales_offset + rows * round_up(k / block * 4, 64)),
      low_sums_offset(sums_offset + rows * round_up(k / 16 * 4, 128)),
      high_sums_offset(low_sums_offset + rows * round_up(k / 16, 32)),
      factors_offset(high_sums_offset + rows * round_up(k / 16, 32)),
      tile_bytes(block == 256 ? factors_offset + rows * round_up(k / part_elements * 4, 64)
                              : low_sums_offset) {
  tile_bytes = rows * round_up(tile_bytes / rows, 64);
}

// `piece`: which of the pieces of piece_bytes that alternate between the rows.
std::size_t q8_row_layout::at(std::uint32_t row, std::size_t offset, std::uint32_t piece,
                              std::uint32_t piece_bytes, std::uint32_t within) const {
  return std::size_t{row / rows_together} * tile_bytes + offset +
         (std::size_t{piece} * rows_together + row % rows_together) * piece_bytes + within;
}

std::size_t q8_row_layout::q_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, 0, i / 32, 32, i % 32);
}
std::size_t q8_row_layout::scale_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, scales_offset, i, 4, 0);
}
std::size_t q8_row_layout::sum_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, sums_offset, i / 2, 8, i % 2 * 4);
}
std::size_t q8_row_layout::low_sum_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, low_sums_offset, i / 16, 16, i % 16);
}
std::size_t q8_row_layout::high_sum_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, high_sums_offset, i / 16, 16, i % 16);
}
std::size_t q8_row_layout::factor_at(std::uint32_t row, std::uint32_t i) const {
  return at(row, factors_offset, i, 4, 0);
}

std::uint32_t rows_together(std::uint32_t rows) {
  constexpr std::uint32_t fewest = 8, most = 64;
  if (rows < fewest) return 1;
  return std::clamp(rows & (~rows + 1), fewest, most);  // the largest power of two that divides it
}

program embedding(const weight_format& format, std::uint32_t k, float scale) {
  builder b(std::string("embedding_") + format.name);
  val row = b.group_y(), token = step_input(b, 1, row);
  val group = lshr(token, 5), row_of_group = token & b.i32(31);
  auto group_bytes = static_cast<std::uint32_t>(packed_group_bytes(format, k));
  val weights = b.offset(b.argument_ptr(0), group, group_bytes);
  val out = b.offset(b.argument_ptr(2), row, 4 * k);
  std::uint32_t elements = format.block_elements;
  for_each_run(b, k, [&](val element) {
    val block_index = lshr(element, elements == 256 ? 8 : 5);
    val block = b.offset(weights, block_index, format.block_bytes * warp_lanes);
    val x = format.value(b, block, row_of_group, element & b.u32(elements - 1));
    if (scale != 1.0f) x = x * b.f32(scale);
    b.store_lanes(memory_type::f32, b.offset(out, element, 4), contract::store_rule(x));
  });
  return b.finish();
}

grid embedding_grid(std::uint32_t k, std::uint32_t rows) {
  return {round_up(k, group_elements) / group_elements, rows};
}

program gather_rows(std::uint32_t k) {
  builder b("gather_rows");
  val row = b.group_y(), index = step_input(b, 1, row);
  val x = b.offset(b.argument_ptr(0), index, 4 * k), out = b.offset(b.argument_ptr(2), row, 4 * k);
  for_each_run(b, k, [&](val element) {
    b.store_lanes(memory_type::f32, b.offset(out, element, 4),
                  b.load_lanes(memory_type::f32, b.offset(x, element, 4)));
  });
  return b.finish();
}

grid gather_rows_grid(std::uint32_t k, std::uint32_t rows) { return embedding_grid(k, rows); }

}  // namespace terrane::kernels
