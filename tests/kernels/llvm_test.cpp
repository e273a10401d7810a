// Machine code made through LLVM computes what the interpreter computes, bit for bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "kernels/interp/interpreter.hpp"
#include "kernels/lang/builder.hpp"
#include "kernels/llvm/compile.hpp"
#include "kernels/llvm/host_compiler.hpp"
#include "tests/kernels/random_program.hpp"

namespace terrane::kernels {
namespace {

int count_of(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) found++;
  return found;
}

// The compiler that run() uses: for the host's own processor, or for a lesser one.
host_compiler& compiler(const std::string& processor = {}) {
  static std::map<std::string, std::unique_ptr<host_compiler>> made;
  std::unique_ptr<host_compiler>& c = made[processor];
  if (c == nullptr) c = host_compiler::make(nullptr, processor).value();
  return *c;
}

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

void run(const program& p, std::span<const std::uint64_t> arguments, std::uint32_t groups_x,
         std::uint32_t groups_y, const std::string& processor = {}) {
  result<group_function> f = compiler(processor).compile(p);
  ASSERT_TRUE(f.has_value()) << to_string(f.error());
  alignas(64) static thread_local std::array<std::byte, 65536> shared;
  ASSERT_LE(p.shared_words * 4, shared.size());
  std::array<std::uint64_t, max_arguments> slots{};
  std::copy(arguments.begin(), arguments.end(), slots.begin());
  for (std::uint32_t y = 0; y < groups_y; y++) {
    shared.fill(std::byte{0xff});
    (*f)(slots.data(), 0, groups_x, y, shared.data());
  }
}

std::vector<std::byte> compiled_output(const random_case& c, const std::string& processor = {}) {
  std::vector<std::byte> output(c.output_bytes, output_fill);
  std::uint64_t table = address(c.input.data());
  run(c.code, c.arguments(address(c.input.data()), address(output.data()), address(&table)),
      c.groups_x, c.groups_y, processor);
  return output;
}

void expect_interpreters_bits(std::uint64_t seed, const std::string& processor = {}) {
  random_options options;
  options.instructions = 20 + static_cast<int>(seed * 7 % 60);
  random_case c = make_random_case(seed, options);
  std::vector<std::byte> expected = interpreted_output(c), got = compiled_output(c, processor);
  auto [e, g] = std::mismatch(expected.begin(), expected.end(), got.begin());
  ASSERT_EQ(e, expected.end()) << "seed " << seed << ", byte " << (e - expected.begin()) << " "
                               << processor << "\n"
                               << to_text(c.code);
}

class random_programs : public testing::TestWithParam<int> {};

TEST_P(random_programs, give_the_interpreters_bits) {
  for (std::uint64_t k = 0; k < 20; k++)
    expect_interpreters_bits(static_cast<std::uint64_t>(GetParam()) * 1000 + k);
}
INSTANTIATE_TEST_SUITE_P(seeds, random_programs, testing::Range(0, 8));

// ---- the instructions of lesser processors, where this one has them

#if defined(__x86_64__)
bool host_is_at_least(const std::string& processor) {
  if (processor == "x86-64-v2") return __builtin_cpu_supports("x86-64-v2");
  if (processor == "x86-64-v3") return __builtin_cpu_supports("x86-64-v3");
  if (processor == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4");
  if (processor == "alderlake")
    return __builtin_cpu_supports("x86-64-v3") && __builtin_cpu_supports("avxvnni") &&
           __builtin_cpu_supports("vaes");
  return true;
}

class lesser_processors : public testing::TestWithParam<const char*> {};

TEST_P(lesser_processors, give_the_interpreters_bits) {
  if (!host_is_at_least(GetParam())) GTEST_SKIP() << "this host has fewer instructions";
  for (std::uint64_t seed = 90000; seed < 90006; seed++) expect_interpreters_bits(seed, GetParam());
}
INSTANTIATE_TEST_SUITE_P(x86, lesser_processors,
                         testing::Values("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4",
                                         "alderlake"));
#endif

// ---- each operation alone, on all pairs of edge values

std::vector<std::uint32_t> edge_values() {
  std::vector<std::uint32_t> v;
  std::uint64_t state = 7;
  for (int k = 0; k < 160; k++) v.push_back(edge_word(state));
  for (std::uint32_t h : {0x0000u, 0x8000u, 0x0001u, 0x8001u, 0x03ffu, 0x0400u, 0x7bffu, 0x7c00u,
                          0xfc00u, 0x7c01u, 0x7dffu, 0x7e00u, 0xfe01u, 0xfd55u, 0x7fffu, 0xffffu})
    v.push_back(h);
  for (std::uint32_t f : {0x387fffffu, 0x38000000u, 0x33800000u, 0x34400000u, 0x477fefffu,
                          0x477ff000u, 0xc77ff001u, 0x3f802000u, 0x3f801001u, 0x7f800001u,
                          0xffbfffffu, 0x00000001u, 0x80000001u, 0x007fffffu, 0x0da24260u})
    v.push_back(f);
  return v;
}

// One group of 32 pairs at a time: out = f(a, b), all as 32-bit words.
program pairwise(const std::function<val(builder&, val, val)>& f) {
  builder b("pairwise", 1);
  val at = b.group_x();
  val x = b.load_lanes(memory_type::i32, b.offset(b.argument_ptr(0), at, 128));
  val y = b.load_lanes(memory_type::i32, b.offset(b.argument_ptr(1), at, 128));
  val r = f(b, x, y);
  if (r.type().scalar == scalar_type::pred) r = b.select(r, b.i32(1), b.i32(0));
  if (r.type().scalar == scalar_type::f32) r = b.unary(opcode::float_to_bits, r);
  b.store_lanes(memory_type::i32, b.offset(b.argument_ptr(2), at, 128), r);
  return b.finish();
}

// Without vector conversions of f16, products of bytes or fused additions: by integers and
// products.
#if defined(__x86_64__)
constexpr const char* least_processor = "x86-64";
#else
constexpr const char* least_processor = "generic";
#endif

bool is_nan(std::uint32_t w) { return (w & 0x7fffffffu) > 0x7f800000u; }

// `any_nan`: two NaN of whatever bits are equal (those that arithmetic makes).
void expect_equal_on_pairs(const char* name, const program& p, bool any_nan) {
  std::vector<std::uint32_t> edges = edge_values(), x, y;
  for (std::uint32_t a : edges)
    for (std::uint32_t b : edges) {
      x.push_back(a);
      y.push_back(b);
    }
  x.resize((x.size() + 31) / 32 * 32);
  y.resize(x.size());
  std::vector<std::uint32_t> expected(x.size()), got(x.size());
  std::array<std::uint64_t, 3> arguments = {address(x.data()), address(y.data()),
                                            address(expected.data())};
  auto groups = static_cast<std::uint32_t>(x.size() / 32);
  interpret(p, arguments, groups, 1);
  arguments[2] = address(got.data());
  for (const char* processor : {"", least_processor}) {
    run(p, arguments, groups, 1, processor);
    for (std::size_t k = 0; k < x.size(); k++) {
      if (any_nan && is_nan(expected[k]) && is_nan(got[k])) continue;
      ASSERT_EQ(expected[k], got[k])
          << name << " of " << std::hex << x[k] << " and " << y[k] << " " << processor;
    }
  }
}

TEST(llvm_operations, on_integers) {
  for (int op = static_cast<int>(opcode::iadd); op <= static_cast<int>(opcode::iult); op++) {
    auto o = static_cast<opcode>(op);
    bool shift = o == opcode::ishl || o == opcode::ilshr || o == opcode::iashr;
    bool division = o == opcode::iudiv || o == opcode::iurem;
    expect_equal_on_pairs(to_string(o), pairwise([&](builder& b, val x, val y) {
                            if (shift) y = y & b.i32(31);
                            if (division) y = b.select(eq(y, b.i32(0)), b.i32(3), y);
                            return b.binary(o, x, y);
                          }),
                          false);
  }
}

TEST(llvm_operations, on_floats) {
  for (opcode o : {opcode::fadd, opcode::fsub, opcode::fmul, opcode::flt, opcode::feq})
    expect_equal_on_pairs(to_string(o), pairwise([&](builder& b, val x, val y) {
                            return b.binary(o, b.unary(opcode::bits_to_float, x),
                                            b.unary(opcode::bits_to_float, y));
                          }),
                          true);
}

TEST(llvm_operations, on_predicates_and_selects) {
  for (opcode o : {opcode::pand, opcode::por})
    expect_equal_on_pairs(to_string(o), pairwise([&](builder& b, val x, val y) {
                            return b.binary(o, lt(x, y), negate(ult(x, y)));
                          }),
                          false);
  // A select moves bits, those of signalling NaN too.
  expect_equal_on_pairs("select", pairwise([&](builder& b, val x, val y) {
                          return b.select(lt(x, y), b.unary(opcode::bits_to_float, x),
                                          b.unary(opcode::bits_to_float, y));
                        }),
                        false);
}

TEST(llvm_operations, conversions) {
  expect_equal_on_pairs(
      "i2f", pairwise([](builder& b, val x, val y) { return b.unary(opcode::i2f, x + y); }), false);
  expect_equal_on_pairs("f2h", pairwise([](builder& b, val x, val y) {
                          return b.unary(opcode::f2h, b.unary(opcode::bits_to_float, x)) + y;
                        }),
                        false);
}

TEST(llvm_operations, every_half_to_float_and_back) {
  builder b("halves", 1);
  val h = b.group_x() * b.i32(32) + b.lane();
  val f = b.unary(opcode::h2f, h);
  val at = b.offset(b.argument_ptr(0), b.group_x(), 256);
  b.store_lanes(memory_type::f32, at, f);
  b.store_lanes(memory_type::i32, b.offset(at, 128), b.unary(opcode::f2h, f));
  program p = b.finish();
  std::vector<std::uint32_t> expected(1 << 17), got(1 << 17);
  std::array<std::uint64_t, 1> to_expected = {address(expected.data())},
                               to_got = {address(got.data())};
  interpret(p, to_expected, 2048, 1);
  for (const char* processor : {"", least_processor}) {
    run(p, to_got, 2048, 1, processor);
    EXPECT_EQ(expected, got) << processor;
  }
}

TEST(llvm_operations, floats_to_half_around_every_half) {
  // Every f16, the ties between neighbours, and one bit to each side of a tie.
  builder b("to_half", 1);
  val bits = b.load_lanes(memory_type::i32, b.offset(b.argument_ptr(0), b.group_x(), 128));
  b.store_lanes(memory_type::i32, b.offset(b.argument_ptr(1), b.group_x(), 128),
                b.unary(opcode::f2h, b.unary(opcode::bits_to_float, bits)));
  program p = b.finish();
  std::vector<std::uint32_t> x;
  for (std::uint32_t top = 0; top < 0x8000u; top++)
    for (std::uint32_t low : {0x0fffu, 0x1000u, 0x1001u, 0u})
      x.push_back((0x32000000u + (top << 12)) ^ low ^ (top << 31));
  std::vector<std::uint32_t> expected(x.size()), got(x.size());
  std::array<std::uint64_t, 2> arguments = {address(x.data()), address(expected.data())};
  auto groups = static_cast<std::uint32_t>(x.size() / 32);
  interpret(p, arguments, groups, 1);
  arguments[1] = address(got.data());
  for (const char* processor : {"", least_processor}) {
    run(p, arguments, groups, 1, processor);
    EXPECT_EQ(expected, got) << processor;
  }
}

TEST(llvm_operations, dot4_in_every_width) {
  for (int bits = 1; bits <= 8; bits++)
    expect_equal_on_pairs("dot4", pairwise([&](builder& b, val x, val y) {
                            val mask = b.u32(((1u << bits) - 1u) * 0x01010101u);
                            return b.dot4(x & mask, y, x ^ y, bits);
                          }),
                          false);
}

TEST(llvm_operations, bytes_of_a_table) {
  const byte_table table = {9, 255, 128, 0, 127, 31, 64, 200, 1, 17, 33, 99, 250, 3, 77, 160};
  expect_equal_on_pairs("look_up", pairwise([&](builder& b, val x, val y) {
                          return b.look_up(table, x) ^ b.look_up(table, x + y);
                        }),
                        false);
}

TEST(llvm_operations, reductions_of_lanes) {
  expect_equal_on_pairs(
      "lane_max",
      pairwise([](builder& b, val x, val y) { return b.unary(opcode::lane_max, x ^ y); }), false);
  expect_equal_on_pairs(
      "lane_sum",
      pairwise([](builder& b, val x, val y) { return b.unary(opcode::lane_sum, x ^ y); }), false);
  expect_equal_on_pairs("lane_tree_add", pairwise([](builder& b, val x, val y) {
                          val even = b.unary(opcode::i2f, x) + b.unary(opcode::i2f, y);
                          return b.unary(opcode::lane_tree_add, even);
                        }),
                        false);
}

// ---- the shape of loops

TEST(llvm_loops, bounds_at_the_ends_of_int32) {
  builder b("bounds", 1);
  val n = b.argument_i32(1);
  vals r = b.loop(n, b.i32(INT32_MAX), 3, {b.i32(0)},
                  [&](val i, const vals& c) { return vals{c[0] * b.i32(31) + i}; });
  vals none = b.loop(b.i32(INT32_MAX), b.i32(INT32_MIN), 1, {n},
                     [&](val, const vals&) { return vals{b.i32(-1)}; });
  b.store(memory_type::i32, b.argument_ptr(0), r[0]);
  b.store(memory_type::i32, b.offset(b.argument_ptr(0), 4), none[0]);
  program p = b.finish();
  for (std::int32_t n0 : {INT32_MAX - 7, INT32_MAX - 6, INT32_MAX - 5, INT32_MAX}) {
    std::array<std::int32_t, 2> expected{}, got{};
    std::array<std::uint64_t, 2> arguments = {address(expected.data()),
                                              static_cast<std::uint32_t>(n0)};
    interpret(p, arguments, 1, 1);
    arguments[0] = address(got.data());
    run(p, arguments, 1, 1);
    EXPECT_EQ(expected, got);
  }
}

TEST(llvm_loops, with_a_barrier_swap_what_they_carry) {
  // Values of the group, of a warp and of lanes that change places at each turn; what lanes carry
  // may come from the group.
  builder b("swap", 4);
  std::uint32_t words = b.shared(4);
  val mine = b.warp() * b.i32(10), lanes = b.lane() + b.warp();
  vals r =
      b.loop(b.i32(0), b.argument_i32(1), 1,
             {b.argument_i32(2), b.i32(1), mine, mine + b.i32(1), lanes, lanes * b.i32(3), lanes},
             [&](val i, const vals& c) {
               b.barrier();
               b.shared_store(b.u32(words) + b.warp(), c[2] + i);
               b.barrier();
               val next = b.u32(words) + ((b.warp() + b.i32(1)) & b.i32(3));
               return vals{c[1], c[0],        c[3], b.shared_load(scalar_type::i32, next),
                           c[5], c[4] + c[0], c[1]};
             });
  val at = b.offset(b.argument_ptr(0), b.warp(), 128);
  b.store_lanes(memory_type::i32, at,
                ((r[0] * b.i32(3) + r[1]) * b.i32(5) + r[2]) * b.i32(7) + r[3] * b.i32(11) +
                    r[4] * b.i32(13) + r[5] + r[6] * b.i32(17));
  program p = b.finish();
  for (std::uint64_t turns : {0, 1, 2, 5}) {
    std::array<std::int32_t, 128> expected{}, got{};
    std::array<std::uint64_t, 3> arguments = {address(expected.data()), turns, 77};
    interpret(p, arguments, 1, 1);
    arguments[0] = address(got.data());
    run(p, arguments, 1, 1);
    EXPECT_EQ(expected, got) << turns;
  }
}

// ---- the compiler

program tile_product(int columns, int bits) {
  builder b("tile_product", 1);
  vals words = b.load_lanes_x4(b.argument_ptr(0));
  val acc =
      b.tile_dot(b.tile_zero(scalar_type::i32, columns), b.argument_ptr(1), b.i32(16), words, bits);
  b.tile_store(b.argument_ptr(2), b.i32(128), acc);
  return b.finish();
}

TEST(llvm_compiler, refuses_an_invalid_program) {
  program p = tile_product(1, 8);
  p.warps = 0;
  result<group_function> f = compiler().compile(p);
  ASSERT_FALSE(f.has_value());
  EXPECT_NE(f.error().message.find("tile_product"), std::string::npos) << f.error().message;
}

TEST(llvm_compiler, makes_the_code_of_a_program_once) {
  EXPECT_EQ(compiler().compile(tile_product(2, 8)).value(),
            compiler().compile(tile_product(2, 8)).value());
  EXPECT_NE(compiler().compile(tile_product(2, 8)).value(),
            compiler().compile(tile_product(3, 8)).value());
}

struct instructions_wanted {
  const char* triple;
  const char* cpu;
  const char* features;
  int bits;
  const char* instruction;
};

TEST(llvm_compiler, uses_what_each_processor_has_for_byte_products) {
  for (const instructions_wanted& w : std::initializer_list<instructions_wanted>{
           {"x86_64-linux-gnu", "x86-64-v4", "+avx512vnni", 8, "vpdpbusd"},
           {"x86_64-linux-gnu", "x86-64-v3", "+avxvnni", 8, "vpdpbusd"},
           {"x86_64-linux-gnu", "x86-64-v4", "", 7, "vpmaddubsw"},
           {"x86_64-linux-gnu", "x86-64-v3", "", 4, "vpmaddubsw"},
           {"x86_64-linux-gnu", "x86-64-v3", "", 8, "vpmaddwd"},
           {"x86_64-linux-gnu", "x86-64", "", 7, "pmaddwd"},
           {"aarch64-linux-gnu", "generic", "+i8mm", 8, "usdot"},
           {"aarch64-linux-gnu", "generic", "+dotprod", 8, "sdot"},
           {"aarch64-linux-gnu", "generic", "", 8, "mla"}}) {
    result<std::string> text = assembly(tile_product(1, w.bits), w.triple, w.cpu, w.features);
    ASSERT_TRUE(text.has_value()) << to_string(text.error());
    EXPECT_NE(text->find(w.instruction), std::string::npos)
        << w.triple << " " << w.cpu << " " << w.features << "\n"
        << *text;
    if (w.bits == 8) {
      EXPECT_EQ(text->find("maddubs"), std::string::npos) << "it saturates";
    }
  }
}

TEST(llvm_compiler, looks_bytes_up_by_an_instruction_where_there_is_one) {
  builder b("look_up", 1);
  const val at = b.argument_ptr(0);
  const byte_table table = {9, 255, 128, 0, 127, 31, 64, 200, 1, 17, 33, 99, 250, 3, 77, 160};
  b.store_lanes(memory_type::i32, at, b.look_up(table, b.load_lanes(memory_type::i32, at)));
  const program p = b.finish();
  for (auto [triple, cpu, instruction] : std::initializer_list<std::array<const char*, 3>>{
           {"x86_64-linux-gnu", "x86-64-v4", "vpshufb"},
           {"x86_64-linux-gnu", "x86-64-v3", "vpshufb"},
           {"x86_64-linux-gnu", "x86-64-v2", "pshufb"},
           {"x86_64-linux-gnu", "x86-64", "pxor"},
           {"aarch64-linux-gnu", "generic", "tbl"}}) {
    result<std::string> text = assembly(p, triple, cpu, "");
    ASSERT_TRUE(text.has_value()) << to_string(text.error());
    EXPECT_NE(text->find(instruction), std::string::npos) << triple << " " << cpu << "\n" << *text;
    const bool by_tree = std::string_view(instruction) == "pxor";
    if (by_tree) {
      EXPECT_EQ(text->find("pshufb"), std::string::npos) << *text;
    }
  }
}

TEST(llvm_compiler, multiplies_by_amx_as_many_columns_as_its_registers_hold) {
  for (int columns : {1, 7, 8, 16, 32}) {
    result<std::string> text =
        assembly(tile_product(columns, 8), "x86_64-linux-gnu", "sapphirerapids", "");
    ASSERT_TRUE(text.has_value()) << to_string(text.error());
    const bool by_amx = columns >= 8 && columns <= 16;
    EXPECT_EQ(text->find("tdpbsud") != std::string::npos, by_amx) << *text;
    EXPECT_EQ(text->find("vpdpbusd") != std::string::npos, !by_amx) << *text;
  }
}

// Upper nibbles are multiplied where they are and their sum is shifted, where one instruction takes
// bytes of eight bits.
TEST(llvm_compiler, shifts_sums_of_upper_nibbles_instead_of_words) {
  builder b("nibbles", 1);
  vals words;
  for (val w : b.load_lanes_x4(b.argument_ptr(0))) words.push_back(lshr(w, 4) & b.u32(0x0f0f0f0fu));
  const val sum =
      b.tile_dot(b.tile_zero(scalar_type::i32, 1), b.argument_ptr(1), b.i32(16), words, 4);
  b.tile_store(b.argument_ptr(2), b.i32(128), sum);
  const program p = b.finish();
  auto count = [&](const char* cpu, const std::string& instruction) {
    result<std::string> text = assembly(p, "x86_64-linux-gnu", cpu, "");
    EXPECT_TRUE(text.has_value());
    return count_of(*text, instruction);
  };
  EXPECT_EQ(count("sapphirerapids", "vpsrld\t$4"), 0);
  EXPECT_EQ(count("sapphirerapids", "vpsrad\t$4"), 2);
  EXPECT_EQ(count("x86-64-v3", "vpsrld\t$4"), 16);
}

TEST(llvm_compiler, fetches_ahead_of_a_stream_only) {
  struct expected {
    bool streamed;
    std::uint32_t ahead;  // bytes
    int into_second, into_all;
  };
  // 32 lanes of 16 bytes are eight lines.
  for (const auto& [streamed, ahead, into_second, into_all] : {expected{false, 16384, 0, 0},
                                                               {true, 0, 0, 0},
                                                               {true, 1024, 0, 8},
                                                               {true, 2048, 0, 8},
                                                               {true, 16384, 8, 8}}) {
    builder b("read", 1);
    b.fetch_ahead(ahead);
    val from = b.argument_ptr(0);
    vals words = streamed ? b.stream_lanes_x4(from) : b.load_lanes_x4(from);
    b.store_lanes(memory_type::i32, b.argument_ptr(1), words[0]);
    result<std::string> text = assembly(b.finish(), "x86_64-linux-gnu", "x86-64-v3", "");
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(count_of(*text, "prefetcht1"), into_second) << ahead << *text;
    EXPECT_EQ(count_of(*text, "prefetcht0"), into_all) << ahead << *text;
    EXPECT_EQ(count_of(*text, "prefetch"), into_second + into_all) << ahead;
  }
}

TEST(llvm_compiler, never_contracts) {
  // An exact product may be fused; any other may not.
  for (bool exact : {true, false}) {
    builder b("multiply_add", 1);
    val x = b.load_lanes(memory_type::f32, b.argument_ptr(0));
    b.store_lanes(memory_type::f32, b.argument_ptr(1), exact ? b.fma_exact(x, x, x) : x * x + x);
    result<std::string> text = assembly(b.finish(), "x86_64-linux-gnu", "x86-64-v4", "");
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(text->find("vfmadd") != std::string::npos, exact) << *text;
  }
}

TEST(llvm_compiler, names_the_architecture_it_lacks) {
  result<std::string> text = assembly(tile_product(1, 8), "nonesuch-linux", "", "");
  ASSERT_FALSE(text.has_value());
  EXPECT_NE(to_string(text.error()).find("nonesuch"), std::string::npos);
}

}  // namespace
}  // namespace terrane::kernels
