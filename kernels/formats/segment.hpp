// What a weight format's dot product is given, and the pieces that formats share.
//
// Only the files of this folder and kernels/ops/linear.cpp include this. Programs are built by one
// thread per builder.
#pragma once

#include <functional>

#include "kernels/formats/format.hpp"

namespace terrane::kernels {

// One segment (256 consecutive k, the last may be shorter) of 32 rows of weights and of `columns`
// rows of activations.
struct segment_context {
  builder& b;
  int columns;
  val weights = {};  // address of the segment's first packed block
  val blocks = {};   // i32: blocks of 32 in the segment, 1..8 (always 8 for formats of 256)
  // Blocks whose products are all begun before the first is waited for, and whether every segment
  // has a multiple of them.
  int together = 1;
  bool always_together = true;
  val stride = {};  // i32: bytes between the columns' numbers: of x, or of a block of q

  // Quantised activations of the first column (see q8_row_layout): int8, f32 scales, i32 sums, and
  // for formats of 256 the sums' low and high bytes. Strides are bytes between columns.
  val q = {}, scales = {}, sums = {}, low_sums = {}, high_sums = {};
  val scale_stride = {}, sum_stride = {}, sum_byte_stride = {};
  // i32 factors of each part, with the strides of scales; where rows are rounded in parts.
  val factors = {};
  bool in_parts = false;
  std::uint32_t rows_together = 1;
  bool scale_for_each_block = false;  // of 32; else one for the segment

  // Float activations of the first column: f32.
  val x = {};

  // The first column's q of a block of 32.
  val q_of(val block) const;
  // The activation scale of a block of one column; the sum of a block's integers, or of its two
  // sixteens.
  val scale(val column, val block) const;
  val block_sum(val column, val block) const;
  vals two_sums(val column, val block) const;
  // What an integer product of a block of 32 counts for in a sum over a super-block: the product,
  // times the factor of the block, which is a part, where rows are rounded in parts.
  val in_part(val column, val block, val product) const;
  val part_factor(val column, val block) const;  // i32; where rows are rounded in parts
  // The tile of the sums over all 16 sixteens of weight * sum, a part's factor included;
  // `of_sixteens`: 4 words of 16 bytes, unsigned, of which `bits` are used. Formats of 256 only.
  val times_sums(const vals& of_sixteens, int bits) const;
};

// Address of unit `unit` (an i32, or a constant) of a plane that starts `plane_offset` bytes into a
// packed block of 32 rows.
val plane_unit(builder& b, val packed_block, std::uint32_t plane_offset, val unit,
               std::uint32_t unit_bytes);

// Loads `units` units of 16 bytes: 4 words each, a lane a row.
vals load_units(builder& b, val packed_block, std::uint32_t plane_offset, int units);

// For element values: the byte at `byte` (i32) of `row` in a plane, as an address.
val plane_byte(builder& b, val packed_block, std::uint32_t plane_offset, val byte, val row,
               std::uint32_t unit_bytes);

val half(builder& b, val bits);  // f16 bits -> f32

// The formats whose blocks hold 32 weights, each block one term of the contract's fold.
struct block_parts {
  vals words;    // 8 words: four weights each, unsigned, rising k
  int bits = 8;  // how many bits of a byte they use
  std::function<val(val is, val bs, val dx)> term;  // is = sum w*q, bs = sum q, dx the scale
};
val fold_blocks(const segment_context& s, std::uint32_t packed_block_bytes,
                const std::function<block_parts(val packed_block)>& parts);

// The formats of plain numbers: each product rounds, then adds. `per_unit` weights of 16 bytes
// each. `exact` says that the products are exact, so that a target may fuse them.
val fold_products(const segment_context& s, std::uint32_t packed_block_bytes,
                  const std::function<vals(const vals& words)>& unpack, bool exact);

}  // namespace terrane::kernels
