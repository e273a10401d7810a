// Programs that together use every opcode in every spread, for tests that compare a target with the
// interpreter. Each takes the same arguments:
//   0 input (65,536 bytes)  1 integer results  2 float results (1 MiB each)  3 i32 3  4 f32 0.625
// and runs as a grid of 3 by 2 workgroups of at most 8 warps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/lang/builder.hpp"

namespace terrane::kernels::samples {

inline constexpr std::uint32_t input_bytes = 65536, output_bytes = 1u << 20;
inline constexpr std::uint32_t groups_x = 3, groups_y = 2;

// The input: random words, small numbers, halves, and the edges of every type.
inline std::vector<std::uint32_t> input(std::uint32_t seed) {
  constexpr std::uint32_t edges[] = {
      0,          1,          0xffffffff, 0x80000000, 0x7fffffff, 0x7f800000, 0xff800000,
      0x3f800000, 0xbf800000, 0x00800000, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000,
      0x38800000, 0x387fffff, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000, 0x33c00000,
      0x38801000, 0x38803000, 0x4b000001, 0x00010000, 0x0000ffff, 0x80808080, 0x7f7f7f7f,
      0x0000fc00, 0x00007c00, 0x000003ff, 0x00000400, 0x00008001, 0x01000001, 0x7fffff80,
      0x7fffffc0, 0xff7fffff, 0x34000000};
  std::vector<std::uint32_t> words(input_bytes / 4);
  std::uint32_t state = seed * 2654435761u + 12345u;
  auto next = [&] {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
  };
  for (std::uint32_t& w : words) {
    std::uint32_t bits = next(), kind = next() % 8;
    w = bits;
    if (kind == 0) w = edges[bits % std::size(edges)];
    if (kind == 1) w = bits % 200 - 100;
    if (kind >= 4) w = (bits & 0x807fffffu) | ((110u + bits % 30u) << 23);  // 2^-17 .. 2^13
  }
  return words;
}

// Writes results, each to a row of its own: lane l of result s of warp r of all is word
// (64 s + r) * 32 + l.
class results {
 public:
  explicit results(builder& b)
      : b_(b),
        row_((b.group_y() * b.i32(groups_x) + b.group_x()) * b.i32(b.warps()) + b.warp()),
        ints_(b.offset(b.argument_ptr(1), row_, 128)),
        floats_(b.offset(b.argument_ptr(2), row_, 128)) {}
  val row() const { return row_; }

  void put(val v) {
    if (v.type().scalar == scalar_type::pred) v = b_.select(v, b_.i32(1), b_.i32(0));
    bool is_float = v.type().scalar == scalar_type::f32;
    b_.store_lanes(is_float ? memory_type::f32 : memory_type::i32, slot(is_float), v);
  }
  void put_tile(val tile, int columns) {
    bool is_float = tile.type().scalar == scalar_type::f32;
    val at = slot(is_float);
    b_.tile_store(at, b_.i32(64 * 128), tile);
    (is_float ? next_float_ : next_int_) += static_cast<std::uint32_t>(columns) - 1;
  }
  val slot(bool is_float) {
    std::uint32_t& next = is_float ? next_float_ : next_int_;
    return b_.offset(is_float ? floats_ : ints_, std::int64_t{64 * 128} * next++);
  }

 private:
  builder& b_;
  val row_, ints_, floats_;
  std::uint32_t next_int_ = 0, next_float_ = 0;
};

// Where a warp's own part of the input starts, 512 bytes a warp.
inline val own_input(builder& b, const results& out) {
  return b.offset(b.argument_ptr(0), out.row(), 512);
}

inline program integers(int warps) {
  builder b("integers", warps);
  results out(b);
  val x = own_input(b, out);
  val lanes_a = b.load_lanes(memory_type::i32, x),
      lanes_b = b.load_lanes(memory_type::i32, b.offset(x, 128));
  val uniform = b.load(memory_type::i32, b.offset(x, 256));
  val pairs[][2] = {
      {lanes_a, lanes_b}, {lanes_a, uniform}, {uniform, b.argument_i32(3)}, {b.lane(), b.warp()}};
  for (auto& [a, c] : pairs) {
    for (opcode op :
         {opcode::iadd, opcode::isub, opcode::imul, opcode::iand, opcode::ior, opcode::ixor,
          opcode::ismin, opcode::ismax, opcode::ieq, opcode::ine, opcode::islt, opcode::iult})
      out.put(b.binary(op, a, c));
    for (opcode op : {opcode::ishl, opcode::ilshr, opcode::iashr})
      out.put(b.binary(op, a, c & b.i32(31)));
    for (opcode op : {opcode::iudiv, opcode::iurem}) out.put(b.binary(op, a, c | b.i32(1)));
    val p = lt(a, c), q = ult(c, a);
    out.put(both(p, q));
    out.put(either(p, q));
    out.put(negate(p));
    out.put(b.select(p, a, c));
  }
  for (int bits : {1, 4, 7, 8}) {
    val cut = lanes_a & b.u32(((1u << bits) - 1) * 0x01010101u);
    out.put(b.dot4(cut, lanes_b, uniform, bits));
  }
  for (const byte_table& table :
       {byte_table{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        byte_table{255, 128, 127, 3, 254, 77, 0, 9, 16, 15, 200, 64, 33, 1, 250, 129}}) {
    out.put(b.look_up(table, lanes_a));
    out.put(b.look_up(table, lanes_b ^ uniform));
    out.put(b.look_up(table, uniform));
  }
  out.put(lanes_a << 7);
  out.put(ashr(lanes_a, 31));
  out.put(lshr(lanes_a, 9));
  out.put(b.group_x() + b.group_y());
  return b.finish();
}

inline program floats(int warps) {
  builder b("floats", warps);
  results out(b);
  val x = own_input(b, out);
  val lanes_a = b.load_lanes(memory_type::f32, x),
      lanes_b = b.load_lanes(memory_type::f32, b.offset(x, 128));
  val uniform = b.load(memory_type::f32, b.offset(x, 256));
  val pairs[][2] = {{lanes_a, lanes_b}, {lanes_a, uniform}, {uniform, b.argument_f32(4)}};
  for (auto& [a, c] : pairs) {
    for (opcode op : {opcode::fadd, opcode::fsub, opcode::fmul, opcode::flt, opcode::feq})
      out.put(b.binary(op, a, c));
    out.put(a * c + a);  // must not be fused
    out.put(a * a - c * c);
    out.put(b.select(lt(a, c), a, c));
  }
  val bits = b.load_lanes(memory_type::i32, b.offset(x, 256));
  out.put(b.unary(opcode::i2f, bits));
  out.put(b.unary(opcode::i2f, lanes_a.owner().unary(opcode::float_to_bits, lanes_a)));
  out.put(b.unary(opcode::i2f, b.warp()));
  out.put(b.unary(opcode::bits_to_float, bits));
  out.put(b.unary(opcode::h2f, bits));
  out.put(b.unary(opcode::h2f, lshr(bits, 16)));
  for (val f : {lanes_a, lanes_b, uniform}) {
    val half = b.unary(opcode::f2h, f);
    out.put(half);
    // 11 bits by 11 bits: exact, so fused or not the sum is the same.
    val finite = b.select(lt(f, b.f32(1e4f)), f, b.f32(2.5f));
    val narrow = b.unary(
        opcode::h2f, b.unary(opcode::f2h, b.select(lt(b.f32(-1e4f), f), finite, b.f32(-0.75f))));
    out.put(b.fma_exact(narrow, narrow, lanes_b));
  }
  return b.finish();
}

inline program memory(int warps) {
  builder b("memory", warps);
  results out(b);
  val x = own_input(b, out), lane = b.lane();
  using enum memory_type;
  for (memory_type mem : {i8, u8, i16, u16, i32, f32}) {
    auto size = static_cast<std::uint32_t>(byte_size(mem));
    out.put(b.load(mem, b.offset(x, std::int64_t{4} * size)));
    out.put(b.load(mem, b.offset(x, (lane * b.i32(5)) & b.i32(31), size)));
    out.put(b.load_lanes(mem, b.offset(x, std::int64_t{12})));
    val value = b.load_lanes(mem == f32 ? f32 : i32, x);
    val to = out.slot(mem == f32);
    b.store_lanes(mem, to, value);
    to = out.slot(mem == f32);
    b.store(mem, b.offset(to, b.i32(31) - lane, size), value);
    to = out.slot(mem == f32);
    b.store_if(ult(lane & b.i32(3), b.argument_i32(3)), mem, b.offset(to, lane, size), value);
    to = out.slot(mem == f32);
    b.store(mem, to, b.load(mem == f32 ? f32 : i32, x));
    b.store_if(eq(b.warp() & b.i32(1), b.i32(0)), mem, b.offset(to, 8),
               b.load(mem == f32 ? f32 : i32, b.offset(x, 4)));
  }
  for (int n = 2; n <= 8; n++) {
    for (val v : b.load_words(b.offset(x, 4 * n), n)) out.put(v);
    val sum = b.i32(0);
    for (val v : b.load_words(b.offset(x, lane, 12), n)) sum = sum * b.i32(31) + v;
    out.put(sum);
  }
  for (val v : b.load_lanes_x4(x)) out.put(v);
  out.put(b.load(i32, b.offset(x, b.warp() + b.argument_i32(3), 12)));
  return b.finish();
}

// Lanes and warps that meet in shared memory, in loops whose length is an argument.
inline program shared_memory(int warps) {
  builder b("shared_memory", warps);
  results out(b);
  val x = own_input(b, out), lane = b.lane(), warp = b.warp();
  std::uint32_t words = static_cast<std::uint32_t>(warps) * 32;
  val mine = b.u32(b.shared(words)) + warp * b.i32(32);
  val slots = b.u32(b.shared(static_cast<std::uint32_t>(warps)));
  vals carried = b.loop(
      b.i32(0), b.argument_i32(3), 1, {b.load_lanes(memory_type::i32, x)},
      [&](val i, const vals& c) {
        b.shared_store_lanes(mine, c[0] + i);
        b.shared_store(slots + warp, i * b.i32(7) + warp);
        b.barrier();
        val turned =
            b.shared_load_lanes(scalar_type::i32, b.u32(words) - b.i32(32) - warp * b.i32(32));
        val other = b.shared_load(scalar_type::i32, (lane * b.i32(11) + i) & b.u32(words - 1));
        val one = b.shared_load(scalar_type::i32, slots + b.i32(warps - 1) - warp);
        b.barrier();
        vals inner = b.loop(b.i32(0), i + b.i32(1), 1, {turned}, [&](val j, const vals& d) {
          b.shared_store(mine + ((lane + j) & b.i32(31)), d[0] ^ other);
          b.barrier();
          val back = b.shared_load_lanes(scalar_type::i32, mine);
          b.barrier();
          return vals{back + j};
        });
        return vals{inner[0] * b.i32(3) + other + one};
      });
  out.put(carried[0]);
  b.shared_store_lanes(mine, b.load_lanes(memory_type::f32, x));
  b.barrier();
  out.put(b.shared_load(scalar_type::f32, (lane * b.i32(5) + warp) & b.u32(words - 1)));
  out.put(b.shared_load_lanes(scalar_type::f32, mine));
  return b.finish();
}

inline program reductions(int warps) {
  builder b("reductions", warps);
  results out(b);
  val x = own_input(b, out);
  val i = b.load_lanes(memory_type::i32, x);
  val f = b.unary(opcode::i2f, ashr(i, 9)) * b.f32(0.37f);
  out.put(b.unary(opcode::lane_max, i));
  out.put(b.unary(opcode::lane_sum, i));
  out.put(b.unary(opcode::lane_tree_add, f));
  out.put(b.unary(opcode::lane_sum, b.warp()));
  vals c = b.loop(b.i32(0), b.argument_i32(3), 1, {i, f}, [&](val, const vals& v) {
    val most = b.unary(opcode::lane_max, v[0]), sum = b.unary(opcode::lane_tree_add, v[1]);
    return vals{(v[0] + most) ^ (b.unary(opcode::lane_sum, v[0]) + b.lane()),
                v[1] - sum * b.f32(0.01f)};
  });
  out.put(c[0]);
  out.put(c[1]);
  return b.finish();
}

// Tiles of so many columns, multiplied by so many words at once.
inline program tiles(int warps, int columns, int words, int bits) {
  builder b("tiles_" + std::to_string(columns) + "_" + std::to_string(words), warps);
  results out(b);
  val x = own_input(b, out), stride = b.i32(4 * words);
  vals weights;
  for (int k = 0; k < words; k++)
    weights.push_back(b.load_lanes(memory_type::i32, b.offset(x, 4 * k)) &
                      b.u32(((1u << bits) - 1) * 0x01010101u));
  vals acc = b.loop(
      b.i32(0), b.argument_i32(3), 1,
      {b.tile_zero(scalar_type::i32, columns), b.tile_zero(scalar_type::f32, columns)},
      [&](val i, const vals& c) {
        val dot = b.tile_dot(c[0], b.offset(x, i, 16), i * b.i32(4) + stride, weights, bits);
        val fixed = b.tile_dot(b.tile_zero(scalar_type::i32, columns), x, stride, weights, bits);
        val scale = b.unary(opcode::i2f, b.lane() + i);
        val in[] = {dot, c[1], fixed};
        vals mapped = b.tile_map(in, columns, [&](val column, const vals& e) {
          val s = b.load(memory_type::u16, b.offset(x, column, 2));
          vals folded = b.loop(b.i32(0), column + b.i32(1), 1, {e[2]},
                               [&](val j, const vals& f) { return vals{f[0] + j}; });
          val kept = b.branch(
              lt(i, b.i32(1)), [&] { return vals{e[1]}; },
              [&] { return vals{e[1] * b.f32(0.5f)}; })[0];
          return vals{e[0] ^ folded[0], kept + b.unary(opcode::i2f, e[2] & b.i32(0xffff)) * scale +
                                            b.unary(opcode::i2f, s)};
        });
        return vals{mapped[0], mapped[1]};
      });
  out.put_tile(acc[0], columns);
  out.put_tile(acc[1], columns);
  out.put_tile(b.tile_load(scalar_type::i32, x, b.argument_i32(3) * b.i32(4), columns), columns);
  out.put_tile(b.tile_load(scalar_type::f32, x, b.i32(36), columns), columns);
  return b.finish();
}

inline program control(int warps) {
  builder b("control", warps);
  results out(b);
  val x = own_input(b, out), n = b.argument_i32(3);
  val a = b.load_lanes(memory_type::i32, x);
  // Bounds that differ between warps, a loop in a loop in a branch.
  vals r = b.loop(b.warp(), n + b.warp() * b.i32(2), 2, {a, b.spread_to_lanes(b.f32(1.0f))},
                  [&](val i, const vals& c) {
                    val odd = eq(b.warp() & b.i32(1), b.i32(1));
                    vals way = b.branch(
                        odd,
                        [&] {
                          return b.loop(i, n, 1, {c[0], c[1]}, [&](val j, const vals& d) {
                            return vals{d[0] * b.i32(5) + j, d[1] * b.f32(1.25f)};
                          });
                        },
                        [&] {
                          return vals{c[0] - i, c[1] + b.unary(opcode::i2f, i)};
                        });
                    return vals{way[1].type().scalar == scalar_type::f32 ? way[0] : c[0], way[1]};
                  });
  out.put(r[0]);
  out.put(r[1]);
  // Swapped carried values, a value that is not changed, no turn at all.
  vals swapped = b.loop(b.i32(0), n, 1, {a, a + b.lane(), a}, [&](val, const vals& c) {
    return vals{c[1], c[0], c[2]};
  });
  for (val v : swapped) out.put(v);
  out.put(b.loop(n, b.i32(-5), 1, {a}, [&](val, const vals& c) { return vals{c[0] + c[0]}; })[0]);
  // The counter's end near the largest i32.
  val nearly = b.i32(INT32_MAX - 7);
  for (val end : {b.i32(INT32_MAX), b.i32(INT32_MAX - 3) + n})
    out.put(b.loop(nearly, end, 3, {a},
                   [&](val i, const vals& c) { return vals{c[0] * b.i32(3) + i}; })[0]);
  val turns = b.loop(b.i32(INT32_MIN), b.i32(INT32_MAX) - n, 0x40000000, {a},
                     [&](val i, const vals& c) { return vals{(c[0] ^ i) + n}; })[0];
  out.put(turns);
  b.branch(eq(b.warp(), b.i32(0)), [&] { b.store(memory_type::i32, out.slot(false), n); });
  return b.finish();
}

// What a group stored in global memory is read by its other lanes and warps after a barrier.
inline program exchange(int warps) {
  builder b("exchange", warps);
  results out(b);
  val x = own_input(b, out);
  val base = b.offset(b.argument_ptr(1), std::int64_t{64} * 128 * 100);
  val group = b.offset(base, (b.group_y() * b.i32(groups_x) + b.group_x()) * b.i32(b.warps()), 128);
  val mine = b.offset(group, b.warp(), 128);
  val lanes = b.i32(32 * warps);
  vals last = b.loop(b.i32(0), b.argument_i32(3), 1, {b.load_lanes(memory_type::i32, x)},
                     [&](val i, const vals& c) {
                       b.store_lanes(memory_type::i32, mine, c[0]);
                       b.barrier();
                       val place = b.binary(opcode::iurem,
                                            b.warp() * b.i32(32) + b.lane() * b.i32(7) + i, lanes);
                       val other = b.load(memory_type::i32, b.offset(group, place, 4));
                       b.barrier();
                       return vals{other * b.i32(3) + b.lane()};
                     });
  out.put(last[0]);
  return b.finish();
}

inline std::vector<program> all() {
  std::vector<program> list;
  for (int warps : {1, 2, 8}) {
    for (auto make : {integers, floats, memory, shared_memory, reductions, control, exchange})
      list.push_back(make(warps));
    list.push_back(tiles(warps, 3, 8, 8));
  }
  for (int columns = 1; columns <= 8; columns++)
    list.push_back(tiles(1, columns, columns, columns));
  for (int words : {2, 4, 8}) list.push_back(tiles(1, 8, words, 7));
  list.push_back(tiles(1, 16, 8, 8));
  return list;
}

}  // namespace terrane::kernels::samples
