// What every GPU does: each program of the kernel language gives the interpreter's bits; memory,
// copies, lists and refusals are as device.hpp says.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/interp/interpreter.hpp"
#include "tests/engine/gpu_test_device.hpp"
#include "tests/kernels/sample_programs.hpp"

namespace terrane::engine {
namespace {

namespace samples = kernels::samples;

using words = std::vector<std::uint32_t>;

std::span<const std::byte> bytes_of(const words& w) { return std::as_bytes(std::span(w)); }

std::uint64_t address_of(words& w) { return reinterpret_cast<std::uint64_t>(w.data()); }

// Equal bits; any NaN is as good as another, because no target promises which it gives.
void expect_equal(const words& wanted, const words& got, bool floats) {
  auto is_nan = [](std::uint32_t w) { return (w & 0x7fffffffu) > 0x7f800000u; };
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < wanted.size(); k++) {
    if (wanted[k] == got[k] || (floats && is_nan(wanted[k]) && is_nan(got[k]))) continue;
    if (wrong++ < 5)
      ADD_FAILURE() << (floats ? "float" : "integer") << " result " << k / 2048 << " of warp "
                    << k / 32 % 64 << ", lane " << k % 32 << ": " << std::hex << got[k]
                    << " instead of " << wanted[k];
  }
  EXPECT_EQ(wrong, 0u);
}

// Made once: names of tests need each of them.
const std::vector<kernels::program>& all_samples() {
  static const std::vector<kernels::program> all = samples::all();
  return all;
}

class every_program : public gpu_test,
                      public testing::WithParamInterface<std::tuple<gpu_target, std::size_t>> {
 protected:
  gpu_target target() const override { return std::get<0>(GetParam()); }
  std::size_t number() const { return std::get<1>(GetParam()); }
};

TEST_P(every_program, gives_the_interpreters_bits) {
  const kernels::program& p = all_samples()[number()];
  if (target() != gpu_target::cuda && p.name == "floats" && !gpu().info().host_memory)
    GTEST_SKIP() << "through Vulkan a card may take denormal numbers for zero; no kernel makes any";
  SCOPED_TRACE(p.name + ", " + std::to_string(p.warps) + " warps");
  words input = samples::input(static_cast<std::uint32_t>(number()) + 1);
  const words fill(samples::output_bytes / 4, 0xabababab);
  words ints = fill, floats = fill;
  constexpr std::uint32_t number = std::bit_cast<std::uint32_t>(0.625f);
  std::array<std::uint64_t, kernels::max_arguments> arguments = {
      address_of(input), address_of(ints), address_of(floats), 3, number};
  kernels::interpret(p, arguments, samples::groups_x, samples::groups_y);

  auto on_input = allocate(samples::input_bytes);
  auto on_ints = allocate(samples::output_bytes);
  auto on_floats = allocate(samples::output_bytes);
  ASSERT_TRUE(gpu().write(*on_input, 0, bytes_of(input)).has_value());
  ASSERT_TRUE(gpu().write(*on_ints, 0, bytes_of(fill)).has_value());
  ASSERT_TRUE(gpu().write(*on_floats, 0, bytes_of(fill)).has_value());
  arguments = {on_input->address(), on_ints->address(), on_floats->address(), 3, number};
  run(p, arguments, samples::groups_x, samples::groups_y);
  words got(fill.size());
  ASSERT_TRUE(gpu().read(*on_ints, 0, std::as_writable_bytes(std::span(got))).has_value());
  expect_equal(ints, got, false);
  ASSERT_TRUE(gpu().read(*on_floats, 0, std::as_writable_bytes(std::span(got))).has_value());
  expect_equal(floats, got, true);
}

using program_case = std::tuple<gpu_target, std::size_t>;

std::string name_of_program_case(const testing::TestParamInfo<program_case>& which) {
  const auto [target, number] = which.param;
  const kernels::program& p = all_samples()[number];
  return name_of_target(target) + "_" + p.name + "_" + std::to_string(p.warps) + "_" +
         std::to_string(number);
}

INSTANTIATE_TEST_SUITE_P(samples, every_program,
                         testing::Combine(testing::Values(gpu_target::vulkan,
                                                          gpu_target::portable_vulkan,
                                                          gpu_target::cuda),
                                          testing::Range(std::size_t{0}, all_samples().size())),
                         name_of_program_case);

class gpu_device : public every_gpu_test {};

INSTANTIATE_TEST_SUITE_P(on, gpu_device, testing::Values(gpu_target::vulkan, gpu_target::cuda),
                         name_of_gpu_case);

// x = x * 2 + 1, a lane a word.
kernels::program double_and_add() {
  kernels::builder b("double_and_add");
  kernels::val x = b.offset(b.argument_ptr(0), b.group_x(), 128);
  kernels::val v = b.load_lanes(kernels::memory_type::i32, x);
  b.store_lanes(kernels::memory_type::i32, x, v * b.i32(2) + b.i32(1));
  return b.finish();
}

TEST_P(gpu_device, results_are_read_where_kernels_wrote_them) {
  auto made = gpu().allocate_results(100 * 128);
  ASSERT_TRUE(made.has_value()) << to_string(made.error());
  device_memory& memory = **made;
  const std::array<std::uint64_t, 1> arguments = {memory.address()};
  if (memory.host() == nullptr) {
    const words zero(100 * 32, 0);
    ASSERT_TRUE(gpu().write(memory, 0, bytes_of(zero)).has_value());
  } else {
    std::memset(memory.host(), 0, memory.bytes());
  }
  for (int turn = 0; turn < 2; turn++) run(double_and_add(), arguments, 100);
  words got(100 * 32);
  ASSERT_TRUE(gpu().read(memory, 0, std::as_writable_bytes(std::span(got))).has_value());
  EXPECT_EQ(got, words(100 * 32, 3));
  if (memory.host() != nullptr) {
    EXPECT_EQ(std::memcmp(memory.host(), got.data(), 4 * got.size()), 0);
  }
}

TEST_P(gpu_device, what_is_written_for_the_next_list_is_there_when_it_runs) {
  auto memory = allocate(64 * 128);
  const std::array<std::uint64_t, 1> arguments = {memory->address()};
  for (std::uint32_t turn = 1; turn < 4; turn++) {
    const words start(64 * 32, turn);
    ASSERT_TRUE(gpu().write_for_next(*memory, 0, bytes_of(start)).has_value());
    run(double_and_add(), arguments, 64);
    words got(64 * 32);
    ASSERT_TRUE(gpu().read(*memory, 0, std::as_writable_bytes(std::span(got))).has_value());
    EXPECT_EQ(got, words(64 * 32, 2 * turn + 1));
  }
  EXPECT_FALSE(gpu().write_for_next(*memory, 64 * 128, bytes_of(words(1))).has_value());
}

TEST_P(gpu_device, phases_see_what_earlier_phases_and_lists_wrote) {
  auto kernel = gpu().compile(double_and_add());
  ASSERT_TRUE(kernel.has_value());
  auto memory = allocate(64 * 128);
  words start(64 * 32, 1);
  ASSERT_TRUE(gpu().write(*memory, 0, bytes_of(start)).has_value());
  std::vector<dispatch> phases(5);
  for (dispatch& d : phases) {
    d.kernel = *kernel;
    d.groups_x = 64;
    d.arguments[0] = memory->address();
  }
  auto list = gpu().record(phases);
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ((*list)->launches, 5u);
  std::uint64_t before = gpu().launches();
  for (int turn = 0; turn < 3; turn++) ASSERT_TRUE(gpu().submit(**list).has_value());
  ASSERT_TRUE(gpu().wait().has_value());
  EXPECT_EQ(gpu().launches() - before, 15u);
  words got(start.size());
  ASSERT_TRUE(gpu().read(*memory, 0, std::as_writable_bytes(std::span(got))).has_value());
  for (std::uint32_t w : got) ASSERT_EQ(w, (1u << 16) - 1);  // 15 times from 1
}

constexpr std::uint32_t mixed_groups = 2000;

// y[g] = x[(5g + 3) mod groups] + total, of 32 words each, a lane a word.
kernels::program mix() {
  kernels::builder b("mix");
  const kernels::val from =
      b.binary(kernels::opcode::iurem, b.group_x() * b.i32(5) + b.i32(3), b.u32(mixed_groups));
  const kernels::val x = b.load_lanes(kernels::memory_type::i32,
                                      b.offset(b.argument_ptr(0), from, 128)),
                     total = b.load_lanes(kernels::memory_type::i32, b.argument_ptr(2));
  b.store_lanes(kernels::memory_type::i32, b.offset(b.argument_ptr(1), b.group_x(), 128),
                x + total);
  return b.finish();
}

// total = the sum of all y[g].
kernels::program add_all() {
  kernels::builder b("add_all");
  const kernels::vals zero = {b.spread_to_lanes(b.i32(0))};
  const kernels::val sum = b.loop(
      b.i32(0), b.u32(mixed_groups), 1, zero, [&](kernels::val g, const kernels::vals& sums) {
        const kernels::val y = b.offset(b.argument_ptr(1), g, 128);
        return kernels::vals{sums[0] + b.load_lanes(kernels::memory_type::i32, y)};
      })[0];
  b.store_lanes(kernels::memory_type::i32, b.argument_ptr(2), sum);
  return b.finish();
}

// Phases of more workgroups than run at once and of a single one, each of which reads what all
// workgroups of the one before wrote.
TEST_P(gpu_device, no_phase_begins_before_the_one_ahead_has_ended) {
  constexpr int turns = 12;
  words x(mixed_groups * 32), y(x.size()), total(32, 0);
  for (std::uint32_t k = 0; k < x.size(); k++) x[k] = k * 2654435761u;
  auto on_x = allocate(4 * x.size()), on_y = allocate(4 * x.size()), on_total = allocate(128);
  ASSERT_TRUE(gpu().write(*on_x, 0, bytes_of(x)).has_value());
  ASSERT_TRUE(gpu().write(*on_total, 0, bytes_of(total)).has_value());
  auto mixing = gpu().compile(mix()), adding = gpu().compile(add_all());
  ASSERT_TRUE(mixing && adding);
  std::vector<dispatch> phases;
  for (int turn = 0; turn < turns; turn++) {
    dispatch d;
    d.kernel = *mixing;
    d.groups_x = mixed_groups;
    d.arguments = {on_x->address(), on_y->address(), on_total->address()};
    phases.push_back(d);
    d.kernel = *adding;
    d.groups_x = 1;
    phases.push_back(d);
    std::swap(on_x, on_y);
    for (std::uint32_t k = 0; k < x.size(); k++)
      y[k] = x[(5 * (k / 32) + 3) % mixed_groups * 32 + k % 32] + total[k % 32];
    std::ranges::fill(total, 0);
    for (std::uint32_t k = 0; k < x.size(); k++) total[k % 32] += y[k];
    std::swap(x, y);
  }
  auto list = gpu().record(phases);
  ASSERT_TRUE(list.has_value());
  ASSERT_TRUE(gpu().submit(**list).has_value());
  const result<void> ended = gpu().wait();
  ASSERT_TRUE(ended.has_value()) << to_string(ended.error());
  words got(x.size());
  ASSERT_TRUE(gpu().read(*on_x, 0, std::as_writable_bytes(std::span(got))).has_value());
  EXPECT_TRUE(got == x);
}

TEST_P(gpu_device, equal_programs_are_one_kernel) {
  auto a = gpu().compile(double_and_add()), b = gpu().compile(double_and_add());
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, *b);
}

TEST_P(gpu_device, small_pieces_keep_apart_and_return) {
  std::uint64_t held = gpu().used_bytes();
  std::vector<std::unique_ptr<device_memory>> pieces;
  for (std::uint32_t k = 0; k < 200; k++) {
    pieces.push_back(allocate(1 + 1000 * (k % 7)));
    words w(pieces.back()->bytes() / 4, k);
    ASSERT_TRUE(gpu().write(*pieces.back(), 0, bytes_of(w)).has_value());
    EXPECT_EQ(pieces.back()->address() % 256, 0u);
    if (k % 3 == 2) pieces[k / 2].reset();
  }
  for (std::uint32_t k = 0; k < pieces.size(); k++) {
    if (pieces[k] == nullptr) continue;
    words w(pieces[k]->bytes() / 4);
    ASSERT_TRUE(gpu().read(*pieces[k], 0, std::as_writable_bytes(std::span(w))).has_value());
    for (std::uint32_t v : w) ASSERT_EQ(v, k);
  }
  pieces.clear();
  EXPECT_EQ(gpu().used_bytes(), held);
}

TEST_P(gpu_device, a_large_piece_is_copied_whole) {
  auto memory = allocate((9u << 20) + 12);
  words w((9u << 20) / 4 + 3);
  for (std::uint32_t k = 0; k < w.size(); k++) w[k] = k * 2654435761u;
  ASSERT_TRUE(gpu().write(*memory, 0, bytes_of(w)).has_value());
  words back(w.size() - 5);
  ASSERT_TRUE(gpu().read(*memory, 20, std::as_writable_bytes(std::span(back))).has_value());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), w.begin() + 5));
}

TEST_P(gpu_device, copies_outside_a_piece_are_refused) {
  auto memory = allocate(256);
  words w(65);
  auto r = gpu().write(*memory, 0, bytes_of(w));
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::invalid_input);
  EXPECT_FALSE(gpu().read(*memory, 256, std::as_writable_bytes(std::span(w))).has_value());
}

TEST_P(gpu_device, what_finds_no_room_says_so_and_harms_nothing) {
  gpu().set_budget_bytes(std::uint64_t{1} << 60);
  auto r = gpu().allocate(std::size_t{1} << 50, memory_use::weights);
  gpu().set_budget_bytes(0);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::no_room);
  EXPECT_NE(r.error().message.find(std::to_string(std::uint64_t{1} << 50)), std::string::npos)
      << r.error().message;
  EXPECT_NE(allocate(1000), nullptr);
}

TEST_P(gpu_device, what_it_cannot_run_is_refused_by_name) {
  kernels::builder b("greedy");
  b.shared(1u << 26);
  b.shared_store(b.i32(0), b.i32(0));
  auto kernel = gpu().compile(b.finish());
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, error_code::unsupported);
  EXPECT_NE(kernel.error().message.find("greedy"), std::string::npos);

  auto small = gpu().compile(double_and_add());
  ASSERT_TRUE(small.has_value());
  dispatch wide;
  wide.kernel = *small;
  wide.groups_y = 0xffffffffu;
  auto list = gpu().record(std::span(&wide, 1));
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().code, error_code::unsupported);
}

// A move prepares while the step loop runs.
TEST_P(gpu_device, copies_and_compilations_run_beside_the_steps) {
  auto kernel = gpu().compile(double_and_add());
  ASSERT_TRUE(kernel.has_value());
  auto memory = allocate(128);
  words start(32, 0);
  ASSERT_TRUE(gpu().write(*memory, 0, bytes_of(start)).has_value());
  dispatch d;
  d.kernel = *kernel;
  d.arguments[0] = memory->address();
  auto list = gpu().record(std::span(&d, 1));
  ASSERT_TRUE(list.has_value());
  std::atomic<bool> good = true;
  std::thread beside([&] {
    for (std::uint32_t turn = 0; turn < 20; turn++) {
      auto piece = gpu().allocate(300000 + 100 * turn, memory_use::kv);
      words w(75000, turn), back(w.size());
      bool same = piece && gpu().write(**piece, 0, bytes_of(w)) &&
                  gpu().read(**piece, 0, std::as_writable_bytes(std::span(back))) && w == back;
      kernels::builder b("beside");
      b.store(kernels::memory_type::i32, b.argument_ptr(0), b.i32(static_cast<int>(turn)));
      if (!same || !gpu().compile(b.finish())) good = false;
    }
  });
  for (int turn = 0; turn < 30; turn++) {
    EXPECT_TRUE(gpu().submit(**list).has_value());
    EXPECT_TRUE(gpu().wait().has_value());
  }
  beside.join();
  EXPECT_TRUE(good);
  ASSERT_TRUE(gpu().read(*memory, 0, std::as_writable_bytes(std::span(start))).has_value());
  EXPECT_EQ(start[31], (1u << 30) - 1);
}

TEST_P(gpu_device, names_itself_by_uuid_and_driver) {
  const device_info& info = gpu().info();
  const std::string kind = name_of_target(target());
  EXPECT_EQ(to_string(info.kind), kind);
  EXPECT_EQ(info.name.size(), kind.size() + 1 + 36) << info.name;
  EXPECT_TRUE(info.name.starts_with(kind + ":"));
  EXPECT_FALSE(info.description.empty());
  EXPECT_FALSE(info.driver.empty());
  EXPECT_GT(info.memory_bytes, 0u);
}

}  // namespace
}  // namespace terrane::engine
