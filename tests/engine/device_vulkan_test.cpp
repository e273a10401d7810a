// What Vulkan devices alone do, on the first usable one of the machine (Mesa's software device
// where there is no GPU): kept pipelines, loss, staging, arenas. Without a device the tests are
// skipped with the reason. What every GPU does is in device_gpu_test.cpp.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/device/vulkan/copier.hpp"
#include "kernels/lang/builder.hpp"
#include "tests/engine/gpu_test_device.hpp"

namespace terrane::engine {
namespace {

class vulkan_device : public gpu_test {
 protected:
  gpu_target target() const override { return gpu_target::vulkan; }
};

using words = std::vector<std::uint32_t>;

std::span<const std::byte> bytes_of(const words& w) { return std::as_bytes(std::span(w)); }

kernels::program store_one() {
  kernels::builder b("store_one");
  b.store(kernels::memory_type::i32, b.argument_ptr(0), b.i32(1));
  return b.finish();
}

TEST_F(vulkan_device, opens_again_with_the_pipelines_it_kept) {
  namespace fs = std::filesystem;
  vulkan_options options;
  options.cache_folder = fs::temp_directory_path() / ("terrane_vulkan_" + std::to_string(getpid()));
  for (int start = 0; start < 2; start++) {
    auto opened = open_vulkan_device(gpu().info().name, options);
    ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
    auto kernel = (*opened)->compile(store_one());
    EXPECT_TRUE(kernel.has_value());
    // Garbage in place of what was kept must not reach the driver.
    for (const auto& entry : fs::recursive_directory_iterator(options.cache_folder))
      if (entry.is_regular_file()) fs::resize_file(entry.path(), 40);
  }
  fs::remove_all(options.cache_folder);
}

// The parts below the device, opened on the same hardware.
std::unique_ptr<vulkan::logical_device> open_parts(const std::string& name, bool exports = false) {
  auto instance = vulkan::instance::create(false);
  if (!instance) return nullptr;
  for (vulkan::physical_device& p : vulkan::survey(**instance))
    if (p.info.name == name && p.refused.empty()) {
      if (exports) {
        p.no_export.clear();
        p.exported = {p.memory.memory_type, false, true};
      }
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

// The other driver's side of an exported arena: its file, mapped.
class mapped_file : public foreign_mapping {
 public:
  mapped_file(void* at, std::uint64_t bytes)
      : foreign_mapping(reinterpret_cast<std::uint64_t>(at)), bytes_(bytes) {}
  ~mapped_file() override { ::munmap(reinterpret_cast<void*>(address()), bytes_); }
  bool is_open() const override { return true; }

 private:
  const std::uint64_t bytes_;
};

result<std::unique_ptr<foreign_mapping>> map_file(int descriptor, std::uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (at == MAP_FAILED) return fail(error_code::unsupported, "it is no file that can be mapped");
  return std::make_unique<mapped_file>(at, bytes);
}

TEST_F(vulkan_device, exported_memory_is_seen_where_it_is_mapped) {
  auto parts = open_parts(gpu().info().name, true);
  if (parts == nullptr || parts->functions().vkGetMemoryFdKHR == nullptr)
    GTEST_SKIP() << "the driver has no VK_KHR_external_memory_fd";
  vulkan::arena_pool pool(*parts);
  auto own = pool.allocate(3u << 20, true), cut = pool.allocate(3000, true);
  ASSERT_TRUE(own && cut);
  vulkan::copier copies(*parts, pool);
  int mapped = 0;
  const map_exported map = [&](int descriptor, std::uint64_t bytes) {
    mapped++;
    return map_file(descriptor, bytes);
  };
  for (device_memory* memory : {own->get(), cut->get()}) {
    result<std::uint64_t> there = pool.address_elsewhere(memory->address() + 256, map);
    if (!there && there.error().code == error_code::unsupported)
      GTEST_SKIP() << there.error().message;  // a card's memory is no file
    ASSERT_TRUE(there.has_value());
    EXPECT_EQ(pool.address_elsewhere(memory->address() + 260, map).value(), *there + 4);
    const words sent{0x3fa91c07, 0x77e0d215, 0x5b2c6e98};
    ASSERT_TRUE(copies.write(memory->address() + 256, bytes_of(sent)).has_value());
    // Mesa puts something of its own before the bytes.
    const auto* seen = reinterpret_cast<const std::uint32_t*>(*there);
    EXPECT_NE(std::search(seen, seen + 2048, sent.begin(), sent.end()), seen + 2048);
  }
  EXPECT_EQ(mapped, 2);  // once for each arena
  auto plain = pool.allocate(100);
  EXPECT_EQ(pool.address_elsewhere((*plain)->address(), map).error().code, error_code::unsupported);
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
