// The language itself: what the builder makes, what verify() refuses, what the interpreter does.
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/interp/interpreter.hpp"
#include "kernels/lang/builder.hpp"

namespace terrane::kernels {
namespace {

std::uint64_t address(void* p) { return reinterpret_cast<std::uint64_t>(p); }

program sum_over_warps(int warps) {
  // out = sum over the group's lanes of x, through lane_sum, shared memory and a barrier.
  builder b("sum_over_warps", warps);
  val x = b.argument_ptr(0), out = b.argument_ptr(1);
  std::uint32_t slots = b.shared(static_cast<std::uint32_t>(warps));
  val mine = b.load_lanes(memory_type::i32, b.offset(x, b.warp(), 128));
  b.shared_store(b.warp() + b.u32(slots), b.unary(opcode::lane_sum, mine));
  b.barrier();
  vals total =
      b.loop(b.i32(0), b.i32(warps), 1, {b.warp() * b.i32(0)}, [&](val i, const vals& carried) {
        return vals{carried[0] + b.shared_load(scalar_type::i32, i)};
      });
  b.branch(eq(b.warp(), b.i32(0)), [&] { b.store(memory_type::i32, out, total[0]); });
  return b.finish();
}

TEST(interpreter, sums_over_the_warps_of_a_group) {
  std::array<std::int32_t, 256> x;
  std::iota(x.begin(), x.end(), 1);
  std::int32_t out = 0;
  std::array<std::uint64_t, 2> arguments = {address(x.data()), address(&out)};
  interpret(sum_over_warps(8), arguments, 1, 1);
  EXPECT_EQ(out, 256 * 257 / 2);
}

TEST(interpreter, multiplies_a_tile) {
  // 32 rows of 4 bytes 1..4 (+row) by two columns.
  builder b("tile", 1);
  val w = b.load_lanes(memory_type::i32, b.argument_ptr(0));
  std::array<val, 1> words = {w};
  val acc = b.tile_dot(b.tile_zero(scalar_type::i32, 2), b.argument_ptr(1), b.i32(4), words, 8);
  std::array<val, 1> tiles = {acc};
  vals scaled = b.tile_map(tiles, 2, [&](val column, const vals& e) {
    return vals{b.unary(opcode::i2f, e[0] + column)};
  });
  b.tile_store(b.argument_ptr(2), b.i32(128), scaled[0]);
  program p = b.finish();
  std::array<std::uint32_t, 32> weights;
  for (std::uint32_t l = 0; l < 32; l++) weights[l] = 0x04030201u + l;
  std::array<std::uint32_t, 2> x = {0x01010101u, 0x00000080u};  // column 1: byte 0 is -128
  std::array<float, 64> out;
  std::array<std::uint64_t, 3> arguments = {address(weights.data()), address(x.data()),
                                            address(out.data())};
  interpret(p, arguments, 1, 1);
  for (int l = 0; l < 32; l++) {
    EXPECT_EQ(out[static_cast<std::size_t>(l)], static_cast<float>(10 + l));
    EXPECT_EQ(out[static_cast<std::size_t>(32 + l)], static_cast<float>(-128 * (1 + l) + 1));
  }
}

TEST(verify, refuses_a_barrier_under_control_that_differs_between_warps) {
  program p = sum_over_warps(2);
  for (instruction& in : p.body.body)
    if (in.op == opcode::branch) {
      instruction barrier;
      barrier.op = opcode::barrier;
      in.regions[0].body.push_back(barrier);
    }
  result<void> r = verify(p);
  ASSERT_FALSE(r.has_value());
  EXPECT_NE(r.error().message.find("barrier"), std::string::npos) << r.error().message;
}

TEST(verify, refuses_a_value_out_of_scope) {
  program p = sum_over_warps(2);
  instruction use;
  use.op = opcode::iadd;
  for (instruction& in : p.body.body)
    if (in.op == opcode::loop)
      use.operands = {in.regions[0].parameters[0], in.regions[0].parameters[0]};
  use.result = static_cast<value_id>(p.values.size());
  use.results = 1;
  p.values.push_back({scalar_type::i32, spread::warp});
  p.body.body.push_back(use);
  EXPECT_FALSE(verify(p).has_value());
}

TEST(program, equal_text_means_equal_fingerprint) {
  EXPECT_EQ(fingerprint(sum_over_warps(4)), fingerprint(sum_over_warps(4)));
  EXPECT_NE(fingerprint(sum_over_warps(4)), fingerprint(sum_over_warps(8)));
}

}  // namespace
}  // namespace terrane::kernels
