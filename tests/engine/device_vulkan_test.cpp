// Vulkan devices, on the first usable one of the machine (Mesa's software device where there is no
// GPU): every program of the kernel language gives the interpreter's bits; memory, copies, lists
// and refusals do as device.hpp says. Without a device the tests are skipped with the reason.
#include <array>
#include <atomic>
#include <bit>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/device/vulkan/copier.hpp"
#include "kernels/interp/interpreter.hpp"
#include "tests/engine/vulkan_test_device.hpp"
#include "tests/kernels/sample_programs.hpp"

namespace terrane::engine {
namespace {

namespace samples = kernels::samples;

class vulkan_device : public vulkan_test {};

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

class every_program : public vulkan_device, public testing::WithParamInterface<std::size_t> {
 protected:
  void expect_the_interpreters_bits(device& on);
};

void every_program::expect_the_interpreters_bits(device& on) {
  const kernels::program p = samples::all()[GetParam()];
  SCOPED_TRACE(p.name + ", " + std::to_string(p.warps) + " warps");
  words input = samples::input(static_cast<std::uint32_t>(GetParam()) + 1);
  const words fill(samples::output_bytes / 4, 0xabababab);
  words ints = fill, floats = fill;
  constexpr std::uint32_t number = std::bit_cast<std::uint32_t>(0.625f);
  std::array<std::uint64_t, kernels::max_arguments> arguments = {
      address_of(input), address_of(ints), address_of(floats), 3, number};
  kernels::interpret(p, arguments, samples::groups_x, samples::groups_y);

  auto on_input = allocate(on, samples::input_bytes);
  auto on_ints = allocate(on, samples::output_bytes);
  auto on_floats = allocate(on, samples::output_bytes);
  ASSERT_TRUE(on.write(*on_input, 0, bytes_of(input)).has_value());
  ASSERT_TRUE(on.write(*on_ints, 0, bytes_of(fill)).has_value());
  ASSERT_TRUE(on.write(*on_floats, 0, bytes_of(fill)).has_value());
  arguments = {on_input->address(), on_ints->address(), on_floats->address(), 3, number};
  run(on, p, arguments, samples::groups_x, samples::groups_y);
  words got(fill.size());
  ASSERT_TRUE(on.read(*on_ints, 0, std::as_writable_bytes(std::span(got))).has_value());
  expect_equal(ints, got, false);
  ASSERT_TRUE(on.read(*on_floats, 0, std::as_writable_bytes(std::span(got))).has_value());
  expect_equal(floats, got, true);
}

TEST_P(every_program, gives_the_interpreters_bits) { expect_the_interpreters_bits(gpu()); }

TEST_P(every_program, gives_them_in_portable_code_too) {
  expect_the_interpreters_bits(portable_gpu());
}

INSTANTIATE_TEST_SUITE_P(samples, every_program,
                         testing::Range(std::size_t{0}, samples::all().size()),
                         [](const testing::TestParamInfo<std::size_t>& which) {
                           const kernels::program p = samples::all()[which.param];
                           return p.name + "_" + std::to_string(p.warps) + "_" +
                                  std::to_string(which.param);
                         });

// x = x * 2 + 1, a lane a word.
kernels::program double_and_add() {
  kernels::builder b("double_and_add");
  kernels::val x = b.offset(b.argument_ptr(0), b.group_x(), 128);
  kernels::val v = b.load_lanes(kernels::memory_type::i32, x);
  b.store_lanes(kernels::memory_type::i32, x, v * b.i32(2) + b.i32(1));
  return b.finish();
}

TEST_F(vulkan_device, phases_see_what_earlier_phases_and_lists_wrote) {
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

TEST_F(vulkan_device, equal_programs_are_one_kernel) {
  auto a = gpu().compile(double_and_add()), b = gpu().compile(double_and_add());
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, *b);
}

TEST_F(vulkan_device, small_pieces_keep_apart_and_return) {
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

TEST_F(vulkan_device, a_large_piece_is_copied_whole) {
  auto memory = allocate((9u << 20) + 12);
  words w((9u << 20) / 4 + 3);
  for (std::uint32_t k = 0; k < w.size(); k++) w[k] = k * 2654435761u;
  ASSERT_TRUE(gpu().write(*memory, 0, bytes_of(w)).has_value());
  words back(w.size() - 5);
  ASSERT_TRUE(gpu().read(*memory, 20, std::as_writable_bytes(std::span(back))).has_value());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), w.begin() + 5));
}

TEST_F(vulkan_device, copies_outside_a_piece_are_refused) {
  auto memory = allocate(256);
  words w(65);
  auto r = gpu().write(*memory, 0, bytes_of(w));
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::invalid_input);
  EXPECT_FALSE(gpu().read(*memory, 256, std::as_writable_bytes(std::span(w))).has_value());
}

TEST_F(vulkan_device, what_finds_no_room_says_so_and_harms_nothing) {
  gpu().set_budget_bytes(std::uint64_t{1} << 60);
  auto r = gpu().allocate(std::size_t{1} << 50, memory_use::weights);
  gpu().set_budget_bytes(0);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::no_room);
  EXPECT_NE(r.error().message.find(std::to_string(std::uint64_t{1} << 50)), std::string::npos)
      << r.error().message;
  EXPECT_NE(allocate(1000), nullptr);
}

TEST_F(vulkan_device, what_it_cannot_run_is_refused_by_name) {
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
TEST_F(vulkan_device, copies_and_compilations_run_beside_the_steps) {
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

TEST_F(vulkan_device, names_itself_by_uuid_and_driver) {
  const device_info& info = gpu().info();
  EXPECT_EQ(info.kind, device_kind::vulkan);
  EXPECT_EQ(info.name.size(), 7u + 36u) << info.name;
  EXPECT_EQ(info.name.rfind("vulkan:", 0), 0u);
  EXPECT_FALSE(info.description.empty());
  EXPECT_FALSE(info.driver.empty());
  EXPECT_GT(info.memory_bytes, 0u);
}

TEST_F(vulkan_device, opens_again_with_the_pipelines_it_kept) {
  namespace fs = std::filesystem;
  vulkan_options options;
  options.cache_folder = fs::temp_directory_path() / ("terrane_vulkan_" + std::to_string(getpid()));
  for (int start = 0; start < 2; start++) {
    auto opened = open_vulkan_device(gpu().info().name, options);
    ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
    auto kernel = (*opened)->compile(double_and_add());
    EXPECT_TRUE(kernel.has_value());
    // Garbage in place of what was kept must not reach the driver.
    for (const auto& entry : fs::recursive_directory_iterator(options.cache_folder))
      if (entry.is_regular_file()) fs::resize_file(entry.path(), 40);
  }
  fs::remove_all(options.cache_folder);
}

// The parts below the device, opened on the same hardware.
std::unique_ptr<vulkan::logical_device> open_parts(const std::string& name) {
  auto instance = vulkan::instance::create(false);
  if (!instance) return nullptr;
  for (const vulkan::physical_device& p : vulkan::survey(**instance))
    if (p.info.name == name && p.refused.empty()) {
      auto opened = vulkan::logical_device::open(*instance, p);
      return opened ? std::move(*opened) : nullptr;
    }
  return nullptr;
}

TEST_F(vulkan_device, a_lost_device_stays_lost) {
  auto parts = open_parts(gpu().info().name);
  ASSERT_NE(parts, nullptr);
  vulkan::arena_pool pool(*parts);
  EXPECT_EQ(parts->check(VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory").error().code,
            error_code::no_room);
  EXPECT_TRUE(pool.allocate(100).has_value());
  EXPECT_FALSE(parts->check(VK_ERROR_DEVICE_LOST, "vkQueueSubmit").has_value());
  auto memory = pool.allocate(100);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, error_code::device_fault);
  EXPECT_EQ(memory.error().where, gpu().info().name);
  EXPECT_NE(memory.error().message.find("VK_ERROR_DEVICE_LOST"), std::string::npos);
  EXPECT_EQ(parts->steps().wait(0).error().code, error_code::device_fault);
}

// What devices do whose memory this process cannot see.
TEST_F(vulkan_device, staging_copies_any_range) {
  auto parts = open_parts(gpu().info().name);
  ASSERT_NE(parts, nullptr);
  vulkan::arena_pool pool(*parts);
  auto memory = pool.allocate(18u << 20), small = pool.allocate(3000);
  ASSERT_TRUE(memory && small);
  vulkan::copier copies(*parts, pool);
  words w((18u << 20) / 4 - 100), back(w.size());
  for (std::uint32_t k = 0; k < w.size(); k++) w[k] = k * 2654435761u;
  ASSERT_TRUE(copies.write((*memory)->address() + 44, bytes_of(w)).has_value());
  ASSERT_TRUE(copies.write((*small)->address() + 4, bytes_of(w).first(8)).has_value());
  ASSERT_TRUE(
      copies.read((*memory)->address() + 44, std::as_writable_bytes(std::span(back))).has_value());
  EXPECT_TRUE(w == back);
  words two(2);
  ASSERT_TRUE(
      copies.read((*small)->address() + 4, std::as_writable_bytes(std::span(two))).has_value());
  EXPECT_EQ(two, (words{w[0], w[1]}));
}

TEST_F(vulkan_device, empty_arenas_go_back_to_the_driver) {
  auto parts = open_parts(gpu().info().name);
  ASSERT_NE(parts, nullptr);
  vulkan::arena_pool pool(*parts);
  std::vector<std::unique_ptr<device_memory>> pieces;
  for (int k = 0; k < 40; k++) {
    auto made = pool.allocate(1u << 20);
    ASSERT_TRUE(made.has_value());
    pieces.push_back(std::move(*made));
  }
  EXPECT_EQ(pool.arenas(), 3u);  // of 16 MiB
  auto large = pool.allocate(3u << 20);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(pool.arenas(), 4u);
  large->reset();
  EXPECT_EQ(pool.arenas(), 3u);
  // Every second piece back, then the others: gaps join.
  for (std::size_t k = 0; k < pieces.size(); k += 2) pieces[k].reset();
  EXPECT_EQ(pool.arenas(), 3u);
  pieces.clear();
  EXPECT_EQ(pool.arenas(), 0u);
}

TEST(vulkan, an_unknown_device_is_not_found) {
  auto opened = open_vulkan_device("vulkan:00000000-0000-0000-0000-000000000001");
  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error().code == error_code::not_found ||
              opened.error().code == error_code::unsupported);
  EXPECT_FALSE(opened.error().message.empty());
}

}  // namespace
}  // namespace terrane::engine
