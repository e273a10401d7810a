// KV pages: each has its own bytes, and what is given back is given out again, with the heap left
// alone but for an arena's own.
#include "engine/kv/page_pool.hpp"

#include <atomic>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "engine/device/cpu/cpu_device.hpp"
#include "tests/engine/sampling/allocations.hpp"

namespace terrane::engine {
namespace {

constexpr std::size_t page_bytes = 8192;
constexpr std::uint32_t together = page_pool::pages_together;

class kv_pages : public testing::Test {
 protected:
  std::unique_ptr<device> on = std::move(*make_cpu_device({1, 0, ""}));
  page_pool pool{*on, 3, 2, page_bytes};
};

TEST_F(kv_pages, are_apart_and_say_where_they_are) {
  std::vector<kv_page_ptr> held;
  std::set<std::uint64_t> addresses;
  for (std::uint32_t k = 0; k < 2 * together + 1; k++) {
    held.push_back(*pool.take(1));
    EXPECT_EQ(held.back()->device(), 3u);
    EXPECT_EQ(held.back()->address(), held.back()->memory().address() + held.back()->offset());
    addresses.insert(held.back()->address());
  }
  EXPECT_EQ(addresses.size(), held.size());
  EXPECT_EQ(on->used_bytes(memory_use::kv), 3 * together * page_bytes);
  EXPECT_EQ(pool.bytes_to_take(1, together - 1), 0u);
  EXPECT_EQ(pool.bytes_to_take(1, together), together * page_bytes);
  held.resize(1);
  EXPECT_EQ(on->used_bytes(memory_use::kv), together * page_bytes);
  held.clear();
  EXPECT_EQ(on->used_bytes(memory_use::kv), 0u);
}

TEST_F(kv_pages, that_return_are_given_out_again_without_the_heap) {
  kv_page_ptr first = *pool.take(0), second = *pool.take(0);
  const std::uint64_t address = first->address();
  const std::size_t before = test::allocations();
  for (int k = 0; k < 100; k++) {
    first.reset();
    first = *pool.take(0);
    EXPECT_EQ(first->address(), address);
  }
  EXPECT_EQ(test::allocations(), before);
}

// A page's place is not given out before its last owner has done with it.
TEST_F(kv_pages, are_taken_and_returned_by_several_threads_at_once) {
  std::atomic<bool> given_twice = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([this, t, &given_twice] {
      const auto own = static_cast<std::byte>(t + 1);
      for (int k = 0; k < 2000; k++) {
        kv_page_ptr page = *pool.take(0), other = page;
        std::byte& first = page->memory().host()[page->offset()];
        first = own;
        page.reset();
        std::this_thread::yield();
        if (first != own) given_twice = true;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(given_twice);
  EXPECT_EQ(on->used_bytes(memory_use::kv), 0u);
}

}  // namespace
}  // namespace terrane::engine
