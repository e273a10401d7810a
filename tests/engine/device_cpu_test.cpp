// The CPU as a device: the interpreter's bits whatever the number of threads, phases in order,
// memory that is accounted, no allocation in a step.
#include <bit>
#include <cstring>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/device/cpu/cpu_device.hpp"
#include "engine/device/host_copies.hpp"
#include "kernels/lang/builder.hpp"
#include "tests/engine/sampling/allocations.hpp"
#include "tests/kernels/random_program.hpp"

namespace terrane::engine {
namespace {

using kernels::builder;
using kernels::memory_type;
using kernels::val;

std::unique_ptr<device> make_device(unsigned threads, std::uint64_t budget_bytes = 0) {
  result<std::unique_ptr<device>> made = make_cpu_device({threads, budget_bytes, {}});
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  return std::move(*made);
}

std::unique_ptr<device_memory> hold(device& d, std::span<const std::byte> bytes) {
  auto memory = d.allocate(bytes.size(), memory_use::scratch).value();
  EXPECT_TRUE(d.write(*memory, 0, bytes).has_value());
  return memory;
}

class cpu_device_threads : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(counts, cpu_device_threads, testing::Values(1u, 2u, 4u));

TEST_P(cpu_device_threads, random_programs_give_the_interpreters_bits) {
  std::unique_ptr<device> d = make_device(GetParam());
  for (std::uint64_t seed = 50000; seed < 50010; seed++) {
    kernels::random_case c = kernels::make_random_case(seed, {.instructions = 30});
    auto input = hold(*d, c.input);
    std::vector<std::byte> got(c.output_bytes, kernels::output_fill);
    auto output = hold(*d, got);
    std::uint64_t where = input->address();
    auto table = hold(*d, std::as_bytes(std::span(&where, 1)));
    dispatch phase;
    phase.kernel = d->compile(c.code).value();
    phase.groups_x = c.groups_x;
    phase.groups_y = c.groups_y;
    auto arguments = c.arguments(input->address(), output->address(), table->address());
    std::copy(arguments.begin(), arguments.end(), phase.arguments.begin());
    auto list = d->record(std::span(&phase, 1)).value();
    ASSERT_TRUE(d->submit(*list).has_value());
    ASSERT_TRUE(d->wait().has_value());
    ASSERT_TRUE(d->read(*output, 0, got).has_value());
    ASSERT_EQ(got, kernels::interpreted_output(c)) << "seed " << seed;
  }
}

// to[g] = mixed(from[g] * 3 + from[g + 1 of all] + y), a row of 32 words for each group; the last
// group mixes for `turns`.
kernels::program neighbours(std::uint32_t groups_x, int turns) {
  builder b("neighbours", 1);
  val all = b.argument_i32(2), group = b.group_x() + b.group_y() * b.u32(groups_x);
  val next = b.binary(kernels::opcode::iurem, group + b.i32(1), all);
  val here = b.load_lanes(memory_type::i32, b.offset(b.argument_ptr(0), group, 128));
  val there = b.load_lanes(memory_type::i32, b.offset(b.argument_ptr(0), next, 128));
  val mixed = b.loop(b.i32(0), b.i32(turns), 1, {here * b.i32(3) + there + b.group_y()},
                     [&](val, const kernels::vals& c) {
                       return kernels::vals{(c[0] ^ (c[0] << 13)) + kernels::lshr(c[0], 7)};
                     })[0];
  b.store_lanes(memory_type::i32, b.offset(b.argument_ptr(1), group, 128), mixed);
  return b.finish();
}

// Phases that each read what all groups of the phase before wrote.
struct chain {
  std::uint32_t groups_x, groups_y;
  int turns;
  std::vector<std::uint32_t> first, second;
  std::uint64_t rows() const { return std::uint64_t{groups_x} * groups_y; }

  chain(std::uint32_t x, std::uint32_t y, int mixing_turns)
      : groups_x(x), groups_y(y), turns(mixing_turns), first(32 * x * y) {
    for (std::size_t k = 0; k < first.size(); k++) first[k] = static_cast<std::uint32_t>(k * k + 1);
    second = first;
  }
  std::array<std::uint64_t, 3> arguments(std::size_t phase, std::uint64_t a,
                                         std::uint64_t b) const {
    return phase % 2 == 0 ? std::array{a, b, rows()} : std::array{b, a, rows()};
  }
  void compute(std::size_t phases) {
    for (std::size_t phase = 0; phase < phases; phase++) {
      const auto& from = phase % 2 == 0 ? first : second;
      auto& to = phase % 2 == 0 ? second : first;
      for (std::size_t g = 0; g < rows(); g++) {
        std::array<std::uint32_t, 32> v;
        for (std::size_t l = 0; l < 32; l++)
          v[l] = from[32 * g + l] * 3 + from[(g + 1) % rows() * 32 + l] +
                 static_cast<std::uint32_t>(g / groups_x);
        for (int k = 0; k < turns; k++)
          for (std::uint32_t& w : v) w = (w ^ (w << 13)) + (w >> 7);
        std::copy(v.begin(), v.end(), to.begin() + static_cast<std::ptrdiff_t>(32 * g));
      }
    }
  }
};

// Runs the chain on the device and here, and compares.
void expect_chain(device& d, chain c, std::size_t phases, std::size_t submits) {
  auto a = hold(d, std::as_bytes(std::span(c.first)));
  auto b = hold(d, std::as_bytes(std::span(c.second)));
  std::vector<dispatch> recorded(phases);
  for (std::size_t k = 0; k < phases; k++) {
    recorded[k].kernel = d.compile(neighbours(c.groups_x, c.turns)).value();
    recorded[k].groups_x = c.groups_x;
    recorded[k].groups_y = c.groups_y;
    recorded[k].order = k % 3 == 0 ? group_order::y_first : group_order::x_first;
    auto arguments = c.arguments(k, a->address(), b->address());
    std::copy(arguments.begin(), arguments.end(), recorded[k].arguments.begin());
  }
  auto list = d.record(recorded).value();
  std::uint64_t before = d.launches();
  for (std::size_t k = 0; k < submits; k++) ASSERT_TRUE(d.submit(*list).has_value());
  ASSERT_TRUE(d.wait().has_value());
  EXPECT_EQ(d.launches() - before, phases * submits);
  c.compute(phases * submits);
  std::vector<std::uint32_t> got(c.first.size());
  ASSERT_TRUE(d.read(*a, 0, std::as_writable_bytes(std::span(got))).has_value());
  EXPECT_EQ(got, c.first) << c.groups_x << " by " << c.groups_y;
}

TEST_P(cpu_device_threads, a_phase_sees_all_of_the_one_before) {
  std::unique_ptr<device> d = make_device(GetParam());
  for (auto [x, y] : {std::pair{1u, 1u}, {2u, 1u}, {5u, 3u}}) expect_chain(*d, {x, y, 1}, 10, 2);
  expect_chain(*d, {64, 1, 1}, 2, 10);
  expect_chain(*d, {5, 1, 100000}, 20, 1);  // slow enough that a worker is late
}

// On one thread: each group stores whose turn it was.
TEST(cpu_device, groups_follow_each_other_in_the_order_asked_for) {
  std::unique_ptr<device> d = make_device(1);
  constexpr std::uint32_t groups_x = 5, groups_y = 3;
  builder b("turns", 1);
  val counter = b.argument_ptr(0);
  val turn = b.load(memory_type::i32, counter) + b.i32(1);
  b.store(memory_type::i32, counter, turn);
  val own = b.offset(counter, b.group_x() + b.group_y() * b.u32(groups_x), 4);
  b.store(memory_type::i32, b.offset(own, 4), turn);
  dispatch phase;
  phase.kernel = d->compile(b.finish()).value();
  phase.groups_x = groups_x;
  phase.groups_y = groups_y;
  for (group_order order : {group_order::x_first, group_order::y_first}) {
    std::vector<std::int32_t> words(1 + groups_x * groups_y, 0);
    auto memory = hold(*d, std::as_bytes(std::span(words)));
    phase.arguments[0] = memory->address();
    phase.order = order;
    auto list = d->record(std::span(&phase, 1)).value();
    ASSERT_TRUE(d->submit(*list).has_value());
    ASSERT_TRUE(d->wait().has_value());
    ASSERT_TRUE(d->read(*memory, 0, std::as_writable_bytes(std::span(words))).has_value());
    for (std::uint32_t y = 0; y < groups_y; y++)
      for (std::uint32_t x = 0; x < groups_x; x++)
        EXPECT_EQ(words[1 + y * groups_x + x],
                  static_cast<std::int32_t>(order == group_order::x_first ? y * groups_x + x + 1
                                                                          : x * groups_y + y + 1));
  }
}

TEST_P(cpu_device_threads, more_lists_than_the_queue_holds_run_in_order) {
  std::unique_ptr<device> d = make_device(GetParam());
  expect_chain(*d, {3, 1, 1}, 2, 200);
}

TEST_P(cpu_device_threads, submit_and_wait_allocate_nothing) {
  std::unique_ptr<device> d = make_device(GetParam());
  chain c(8, 1, 1);
  auto a = hold(*d, std::as_bytes(std::span(c.first)));
  dispatch phase;
  phase.kernel = d->compile(neighbours(8, 1)).value();
  phase.groups_x = 8;
  phase.arguments = {a->address(), a->address(), 8};
  auto list = d->record(std::vector(9, phase)).value();
  std::size_t before = test::allocations();
  for (int k = 0; k < 100; k++) {
    (void)d->submit(*list);
    (void)d->wait();
  }
  EXPECT_EQ(test::allocations(), before);
}

TEST(cpu_device, an_empty_list_and_an_empty_grid_end) {
  std::unique_ptr<device> d = make_device(2);
  dispatch nothing;
  nothing.kernel = d->compile(neighbours(1, 1)).value();
  nothing.groups_x = 0;
  auto empty = d->record({}).value();
  auto grid = d->record(std::span(&nothing, 1)).value();
  EXPECT_TRUE(d->submit(*empty).has_value());
  EXPECT_TRUE(d->submit(*grid).has_value());
  EXPECT_TRUE(d->wait().has_value());
}

#if defined(__x86_64__)
TEST(cpu_device, keeps_denormals_whatever_its_maker_does) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero; new threads inherit it
  std::unique_ptr<device> d = make_device(2);
  _mm_setcsr(before);
  builder b("halve", 1);
  val p = b.offset(b.argument_ptr(0), b.group_x(), 128);
  b.store_lanes(memory_type::f32, p, b.load_lanes(memory_type::f32, p) * b.f32(0.5f));
  std::vector<float> x(32 * 64, 0x1p-130f);
  auto memory = hold(*d, std::as_bytes(std::span(x)));
  dispatch phase;
  phase.kernel = d->compile(b.finish()).value();
  phase.groups_x = 64;
  phase.arguments[0] = memory->address();
  auto list = d->record(std::span(&phase, 1)).value();
  ASSERT_TRUE(d->submit(*list).has_value());
  ASSERT_TRUE(d->wait().has_value());
  ASSERT_TRUE(d->read(*memory, 0, std::as_writable_bytes(std::span(x))).has_value());
  EXPECT_EQ(x, std::vector<float>(32 * 64, 0x1p-131f));
}
#endif

// What the workers are given to copy in a pause: whole, in its place, whatever it is cut into, with
// or without a warning.
TEST_P(cpu_device_threads, workers_share_copies_within_this_process) {
  std::unique_ptr<device> d = make_device(GetParam());
  auto& workers = dynamic_cast<host_copier&>(*d);
  std::vector<std::byte> from(3'000'001), to(from.size()), expected(from.size());
  for (std::size_t k = 0; k < from.size(); k++) from[k] = static_cast<std::byte>(k * 7 + k / 251);
  for (int turn = 0; turn < 50; turn++) {
    std::vector<host_copy> copies;
    for (std::size_t at = 1; at < from.size(); at += at * 3 + 11) {
      const std::size_t bytes = std::min(at * 2, from.size() - at);
      copies.push_back({&to[at], &from[at], bytes});
      std::copy_n(&from[at], bytes, &expected[at]);
    }
    if (turn % 2 == 0) workers.expect();
    workers.copy(copies);
    ASSERT_EQ(to, expected) << "turn " << turn;
    std::ranges::fill(to, std::byte{0});
    std::ranges::fill(expected, std::byte{0});
  }
  workers.expect();
  workers.copy({});
  expect_chain(*d, {5, 3, 1}, 10, 2);  // lists run as before
}

// ---- memory

TEST(cpu_device, memory_is_aligned_zeroed_and_accounted) {
  std::unique_ptr<device> d = make_device(1);
  auto small = d->allocate(100, memory_use::kv).value();
  auto large = d->allocate((3u << 20) + 5, memory_use::weights).value();
  EXPECT_EQ(small->address() % 256, 0u);
  EXPECT_EQ(large->address() % (2u << 20), 0u);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(large->host()), large->address());
  EXPECT_EQ(large->host()[(3u << 20) + 4], std::byte{0});
  EXPECT_EQ(small->host()[99], std::byte{0});
  EXPECT_EQ(d->used_bytes(memory_use::kv), 100u);
  EXPECT_EQ(d->used_bytes(), 100u + (3u << 20) + 5);
  large.reset();
  EXPECT_EQ(d->used_bytes(), 100u);
  EXPECT_GT(d->driver_used_bytes(), 0u);
}

TEST(cpu_device, refuses_what_does_not_fit_with_the_numbers) {
  std::unique_ptr<device> d = make_device(1, 1000);
  auto held = d->allocate(600, memory_use::kv).value();
  auto refused = d->allocate(500, memory_use::scratch);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::no_room);
  for (const char* number : {"500", "600", "1000"})
    EXPECT_NE(refused.error().message.find(number), std::string::npos) << refused.error().message;
  d->set_budget_bytes(std::uint64_t{1} << 62);
  refused = d->allocate(std::size_t{1} << 60, memory_use::scratch);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::no_room);
}

TEST(cpu_device, copies_stay_inside_their_memory) {
  std::unique_ptr<device> d = make_device(1);
  auto memory = d->allocate(64, memory_use::scratch).value();
  std::array<std::byte, 32> bytes{};
  EXPECT_TRUE(d->write(*memory, 32, bytes).has_value());
  EXPECT_FALSE(d->write(*memory, 33, bytes).has_value());
  EXPECT_FALSE(d->read(*memory, SIZE_MAX, bytes).has_value());
}

TEST(cpu_device, refuses_a_kernel_that_wants_too_much_shared_memory) {
  std::unique_ptr<device> d = make_device(1);
  builder b("greedy", 1);
  b.shared(1u << 20);
  auto refused = d->compile(b.finish());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::unsupported);
  EXPECT_NE(refused.error().message.find("greedy"), std::string::npos);
}

}  // namespace
}  // namespace terrane::engine
