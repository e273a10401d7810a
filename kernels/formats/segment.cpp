#include "kernels/formats/segment.hpp"

#include <array>

namespace terrane::kernels {

val segment_context::q_of(val block) const { return b.offset(q, block, 32 * rows_together); }

val segment_context::scale(val column, val block) const {
  val p = b.offset(scales, column * scale_stride, 1);
  if (scale_for_each_block) p = b.offset(p, block, 4 * rows_together);
  return b.load(memory_type::f32, p);
}

vals segment_context::two_sums(val column, val block) const {
  return b.load_words(b.offset(b.offset(sums, column * sum_stride, 1), block, 8 * rows_together),
                      2);
}

val segment_context::block_sum(val column, val block) const {
  vals two = two_sums(column, block);
  return two[0] + two[1];
}

val segment_context::part_factor(val column, val block) const {
  const val first = b.offset(factors, column * scale_stride, 1);
  return b.load(memory_type::i32, b.offset(first, block, 4 * rows_together));
}

val segment_context::in_part(val column, val block, val product) const {
  return in_parts ? product * part_factor(column, block) : product;
}

val segment_context::times_sums(const vals& of_sixteens, int bits) const {
  const val zero = b.tile_zero(scalar_type::i32, columns);
  const std::array<val, 2> halves = {
      b.tile_dot(zero, low_sums, sum_byte_stride, of_sixteens, bits),
      b.tile_dot(zero, high_sums, sum_byte_stride, of_sixteens, bits)};
  return b.tile_map(halves, columns,
                    [&](val, const vals& e) { return vals{(e[1] << sum_low_bits) + e[0]}; })[0];
}

val plane_unit(builder& b, val packed_block, std::uint32_t plane_offset, val unit,
               std::uint32_t unit_bytes) {
  return b.offset(b.offset(packed_block, plane_offset), unit, warp_lanes * unit_bytes);
}

vals load_units(builder& b, val packed_block, std::uint32_t plane_offset, int units) {
  vals words;
  for (int unit = 0; unit < units; unit++)
    for (val w : b.stream_lanes_x4(plane_unit(b, packed_block, plane_offset, b.i32(unit), 16)))
      words.push_back(w);
  return words;
}

val plane_byte(builder& b, val packed_block, std::uint32_t plane_offset, val byte, val row,
               std::uint32_t unit_bytes) {
  val unit = b.binary(opcode::iudiv, byte, b.u32(unit_bytes));
  val within = b.binary(opcode::iurem, byte, b.u32(unit_bytes));
  val p = plane_unit(b, packed_block, plane_offset, unit, unit_bytes);
  return b.offset(b.offset(p, row, unit_bytes), within, 1);
}

val half(builder& b, val bits) { return b.half_number(bits); }

namespace {

class block_fold {
 public:
  block_fold(const segment_context& s, std::uint32_t packed_block_bytes,
             const std::function<block_parts(val packed_block)>& parts)
      : s_(s), b_(s.b), packed_block_bytes_(packed_block_bytes), parts_(parts) {}

  val run() {
    vals sum = {b_.tile_zero(scalar_type::f32, s_.columns)};
    if (s_.always_together) return over(b_.i32(0), s_.blocks, s_.together, sum)[0];
    val whole = s_.blocks & b_.i32(-s_.together);
    sum = over(b_.i32(0), whole, s_.together, sum);
    return over(whole, s_.blocks, 1, sum)[0];
  }

 private:
  vals over(val begin, val end, int together, const vals& start) {
    return b_.loop(begin, end, together, start, [&](val block, const vals& carried) {
      std::vector<block_parts> parts;
      vals tiles = carried;
      for (int t = 0; t < together; t++) {
        val own = block + b_.i32(t);
        parts.push_back(parts_(b_.offset(s_.weights, own, packed_block_bytes_)));
        tiles.push_back(b_.tile_dot(b_.tile_zero(scalar_type::i32, s_.columns), s_.q_of(own),
                                    s_.stride, parts.back().words, parts.back().bits));
      }
      return b_.tile_map(tiles, s_.columns, [&](val column, const vals& e) {
        val sum = e[0];
        for (int t = 0; t < together; t++) {
          val own = block + b_.i32(t);
          auto k = static_cast<std::size_t>(t);
          sum = sum + parts[k].term(e[k + 1], s_.block_sum(column, own), s_.scale(column, own));
        }
        return vals{sum};
      });
    });
  }

  const segment_context& s_;
  builder& b_;
  std::uint32_t packed_block_bytes_;
  const std::function<block_parts(val packed_block)>& parts_;
};

}  // namespace

val fold_blocks(const segment_context& s, std::uint32_t packed_block_bytes,
                const std::function<block_parts(val packed_block)>& parts) {
  return block_fold(s, packed_block_bytes, parts).run();
}

val fold_products(const segment_context& s, std::uint32_t packed_block_bytes,
                  const std::function<vals(const vals& words)>& unpack, bool exact) {
  builder& b = s.b;
  // A packed block is one plane of 16-byte units, so the segment's units lie in one row.
  std::uint32_t units_per_block = packed_block_bytes / (16 * warp_lanes);
  constexpr int step = 2;  // units taken together: independent loads
  vals start = {b.tile_zero(scalar_type::f32, s.columns)};
  val units = s.blocks * b.u32(units_per_block);
  return b.loop(b.i32(0), units, step, start, [&](val unit, const vals& carried) {
    vals w;
    for (int k = 0; k < step; k++)
      for (val x : unpack(b.stream_lanes_x4(plane_unit(b, s.weights, 0, unit + b.i32(k), 16))))
        w.push_back(x);
    std::uint32_t weights_per_unit = 32 / units_per_block;
    val x = b.offset(s.x, unit, 4 * weights_per_unit);
    return b.tile_map(carried, s.columns, [&](val column, const vals& e) {
      val sum = e[0], p = b.offset(x, column * s.stride, 1);
      for (std::size_t k = 0; k < w.size(); k += 4) {
        vals xs = b.load_words(b.offset(p, static_cast<std::int64_t>(4 * k)), 4);
        for (std::size_t j = 0; j < 4; j++) {
          val xk = b.unary(opcode::bits_to_float, xs[j]);
          sum = exact ? b.fma_exact(w[k + j], xk, sum) : sum + w[k + j] * xk;
        }
      }
      return vals{sum};
    });
  })[0];
}

}  // namespace terrane::kernels
