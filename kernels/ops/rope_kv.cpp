// Turns q and k by their positions, normalised first where the model does so, rounds to f16 and
// writes k and v into their page.
//
// One warp a head of one row, a few of them a workgroup: first the q heads, then the k heads, then
// the v heads.
#include <cassert>

#include "kernels/contract/scalars.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/ops/pages.hpp"
#include "kernels/ops/row_norm.hpp"

namespace terrane::kernels {

namespace {

std::uint32_t heads_of(const rope_kv_spec& spec) {
  return spec.shape.heads + 2 * spec.shape.kv_heads;
}

class rope_kv_builder {
 public:
  explicit rope_kv_builder(const rope_kv_spec& spec) : spec_(spec), b_("rope_kv", spec.warps) {
    assert(spec.shape.head_size % warp_lanes == 0 && spec.rotated <= spec.shape.head_size &&
           spec.rotated % 2 == 0 && "a shape of the engine");
    assert(heads_of(spec) % static_cast<std::uint32_t>(spec.warps) == 0 &&
           (spec.warps == 1 || !spec.head_norms) && "warps reach reductions together");
  }

  program build() {
    row_ = b_.group_y();
    b_.branch(lt(row_, step_rows(b_, 4)), [&] { live_row(); });
    return b_.finish();
  }

 private:
  void live_row() {
    const attention_shape& shape = spec_.shape;
    position_ = step_input(b_, 2, row_);
    x_ = b_.offset(b_.argument_ptr(0), row_, 4 * spec_.input_stride);
    val item = b_.group_x();
    if (spec_.warps > 1) item = item * b_.i32(spec_.warps) + b_.warp();
    val heads = b_.u32(shape.heads), kv_heads = b_.u32(shape.kv_heads);
    b_.branch(
        ult(item, heads),
        [&] {
          q_head(item);
          return vals{};
        },
        [&] {
          page_entry entry(b_, b_.argument_ptr(5), row_slot(), b_.argument_i32(6),
                           lshr(position_, 6));
          b_.branch(entry.present(), [&] {
            val kv = item - heads, page = entry.address();
            b_.branch(
                ult(kv, kv_heads),
                [&] {
                  k_head(kv, page);
                  return vals{};
                },
                [&] {
                  v_head(kv - kv_heads, page);
                  return vals{};
                });
          });
          return vals{};
        });
  }

  val row_slot() { return step_input(b_, 3, row_); }
  val head_of(std::uint32_t float_offset, val head) {
    return b_.offset(b_.offset(x_, 4 * float_offset), head, 4 * spec_.shape.head_size);
  }

  void for_each_run(const std::function<void(val first)>& body) {
    b_.loop(b_.i32(0), b_.u32(spec_.shape.head_size), warp_lanes, body);
  }

  void q_head(val head) {
    std::uint32_t size = spec_.shape.head_size;
    val out = b_.offset(b_.offset(b_.argument_ptr(7), row_, 4 * size * spec_.shape.heads), head,
                        4 * size);
    const input_head in = input(head_of(0, head), 8);
    for_each_run([&](val first) {
      b_.store_lanes(memory_type::f32, b_.offset(out, first, 4),
                     contract::round_to_f16(turned(in, first)));
    });
  }

  void k_head(val head, val page) {
    std::uint32_t size = spec_.shape.head_size;
    val out = b_.offset(b_.offset(page, head, 2 * size * page_positions), in_page(), 2);
    const input_head in = input(head_of(spec_.k_offset, head), 9);
    for_each_run([&](val first) {
      b_.store(memory_type::u16, b_.offset(out, first + b_.lane(), 2 * page_positions),
               b_.unary(opcode::f2h, turned(in, first)));
    });
  }

  void v_head(val head, val page) {
    std::uint32_t size = spec_.shape.head_size;
    val values = b_.offset(page, page_bytes(spec_.shape) / 2);
    val out = b_.offset(b_.offset(values, head, 2 * size * page_positions), in_page(), 2 * size);
    val in = head_of(spec_.v_offset, head);
    for_each_run([&](val first) {
      val x = b_.load_lanes(memory_type::f32, b_.offset(in, first, 4));
      b_.store_lanes(memory_type::u16, b_.offset(out, first, 2), b_.unary(opcode::f2h, x));
    });
  }

  val in_page() { return position_ & b_.u32(page_positions - 1); }

  // A head as it is read, and its norm if it has one.
  struct input_head {
    val x, factor, weight;
  };
  input_head input(val x, int weight_slot) {
    if (!spec_.head_norms) return {x, {}, {}};
    return {x, row_norm(b_, spec_.shape.head_size, 1).factor(x, spec_.eps),
            b_.argument_ptr(weight_slot)};
  }

  // `load` reads the elements of a lane each from an array of f32.
  val element(const input_head& head, const std::function<val(val array)>& load) {
    val x = load(head.x);
    return spec_.head_norms ? contract::rms_element(x, head.factor, load(head.weight)) : x;
  }

  // 32 elements of a head, turned: each lane makes its own element from its pair.
  val turned(const input_head& head, val first) {
    val e = first + b_.lane();
    val own = element(head, [&](val array) {
      return b_.load_lanes(memory_type::f32, b_.offset(array, first, 4));
    });
    if (spec_.rotated == 0) return own;
    val inside = ult(e, b_.u32(spec_.rotated)), half = b_.u32(spec_.rotated / 2);
    bool adjacent = spec_.pairs == rope_pairs::adjacent;
    val is_first = adjacent ? eq(e & b_.i32(1), b_.i32(0)) : ult(e, half);
    val pair = adjacent ? lshr(e, 1) : b_.select(is_first, e, e - half);
    val partner = adjacent ? e ^ b_.i32(1) : b_.select(is_first, e + half, e - half);
    if (spec_.rotated < spec_.shape.head_size) {  // what does not turn reads any pair
      pair = b_.select(inside, pair, b_.i32(0));
      partner = b_.select(inside, partner, b_.i32(0));
    }
    val table = b_.offset(b_.argument_ptr(1), position_, 4 * spec_.rotated);
    vals entry = b_.load_words(b_.offset(table, pair, 8), 2);
    val other = element(
        head, [&](val array) { return b_.load(memory_type::f32, b_.offset(array, partner, 4)); });
    val y = contract::rotate(is_first, own, other, contract::as_float(entry[0]),
                             contract::as_float(entry[1]));
    return spec_.rotated < spec_.shape.head_size ? b_.select(inside, y, own) : y;
  }

  const rope_kv_spec& spec_;
  builder b_;
  val row_, position_, x_;
};

}  // namespace

program rope_kv(const rope_kv_spec& spec) { return rope_kv_builder(spec).build(); }

grid rope_kv_grid(const rope_kv_spec& spec, std::uint32_t rows) {
  return {heads_of(spec) / static_cast<std::uint32_t>(spec.warps), rows};
}

}  // namespace terrane::kernels
