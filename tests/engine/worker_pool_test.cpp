// The CPU's worker threads: every workgroup of every phase is run once, by whoever is free.
#include "engine/device/cpu/worker_pool.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

constexpr std::size_t shared_bytes = 64;

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

struct counts {
  explicit counts(std::size_t groups) : runs(groups) {}
  std::vector<std::atomic<std::uint32_t>> runs;  // by group
  std::atomic<std::uint32_t> all{0}, out_of_turn{0};
};

// Arguments: counts, groups_x, groups run before this phase may begin.
void count_groups(const std::uint64_t* arguments, std::uint32_t x_begin, std::uint32_t x_end,
                  std::uint32_t y, void*) {
  auto& c = *reinterpret_cast<counts*>(arguments[0]);
  if (c.all.load() < arguments[2]) c.out_of_turn++;
  for (std::uint32_t x = x_begin; x < x_end; x++) {
    c.runs[y * arguments[1] + x]++;
    c.all++;
  }
}

cpu_phase counting(counts& c, std::uint32_t groups_x, std::uint32_t groups_y, group_order order,
                   std::uint64_t before) {
  cpu_phase phase{count_groups, groups_x, groups_y, {}, order};
  phase.arguments[0] = address(&c);
  phase.arguments[1] = groups_x;
  phase.arguments[2] = before;
  return phase;
}

// Several hundred short phases after each other, so that workers come late to many of them.
TEST(worker_pool, each_group_of_each_phase_is_run_once_and_phases_follow_each_other) {
  constexpr std::uint32_t rounds = 300;
  for (unsigned threads : {1u, 2u, 3u, 5u, 8u}) {
    auto pool = worker_pool::start(threads, shared_bytes);
    ASSERT_TRUE(pool);
    for (auto [x, y] : {std::pair{0u, 1u},
                        {1u, 1u},
                        {2u, 1u},
                        {3u, 1u},
                        {7u, 3u},
                        {64u, 1u},
                        {1u, 17u},
                        {500u, 2u}}) {
      counts c(std::size_t{x} * y);
      std::vector<cpu_phase> phases;
      for (std::uint32_t k = 0; k < rounds; k++) {
        phases.push_back(counting(c, x, y, k % 2 == 0 ? group_order::x_first : group_order::y_first,
                                  std::uint64_t{k} * x * y));
      }
      (*pool)->submit(phases);
      (*pool)->wait();
      for (const auto& runs : c.runs) ASSERT_EQ(runs.load(), rounds) << threads << " threads";
      EXPECT_EQ(c.out_of_turn.load(), 0u) << threads << " threads, " << x << " by " << y;
    }
  }
}

// Group 0 of 8 ends only after all others, half of which are its own worker's to begin with.
TEST(worker_pool, what_a_held_up_worker_has_not_begun_is_run_by_another) {
  auto pool = worker_pool::start(2, shared_bytes);
  ASSERT_TRUE(pool);
  counts c(8);
  cpu_phase phase = counting(c, 8, 1, group_order::x_first, 0);
  phase.run = [](const std::uint64_t* arguments, std::uint32_t begin, std::uint32_t end,
                 std::uint32_t y, void* shared) {
    auto& all = reinterpret_cast<counts*>(arguments[0])->all;
    while (begin == 0 && all.load() < 7) std::this_thread::yield();
    count_groups(arguments, begin, end, y, shared);
  };
  (*pool)->submit({&phase, 1});
  (*pool)->wait();
  EXPECT_EQ(c.all.load(), 8u);
}

// What a group reads ahead is then what its worker reads next.
TEST(worker_pool, workers_have_neighbouring_groups) {
  auto pool = worker_pool::start(4, shared_bytes);
  ASSERT_TRUE(pool);
  constexpr std::uint32_t groups = 400;
  struct who {
    std::array<std::atomic<std::size_t>, groups> ran{};
    std::atomic<std::uint32_t> begun{0};
  };
  auto w = std::make_unique<who>();
  cpu_phase phase{nullptr, groups, 1, {}, group_order::x_first};
  phase.arguments[0] = address(w.get());
  phase.run = [](const std::uint64_t* arguments, std::uint32_t begin, std::uint32_t end,
                 std::uint32_t, void*) {
    auto& shared = *reinterpret_cast<who*>(arguments[0]);
    // None goes on before each worker has begun: then nothing was taken from another's share.
    if (begin % (groups / 4) == 0) {
      shared.begun++;
      while (shared.begun.load() < 4) std::this_thread::yield();
    }
    for (std::uint32_t x = begin; x < end; x++)
      shared.ran[x] = std::hash<std::thread::id>()(std::this_thread::get_id());
  };
  (*pool)->submit({&phase, 1});
  (*pool)->wait();
  std::set<std::size_t> first_of_share;
  for (std::uint32_t x = 0; x < groups; x += groups / 4) {
    first_of_share.insert(w->ran[x]);
    EXPECT_EQ(w->ran[x], w->ran[x + 1]) << x;
  }
  EXPECT_EQ(first_of_share.size(), 4u);
}

// What is fetched may have been given back since; nothing comes of it but time.
TEST(worker_pool, what_is_fetched_while_waiting_need_not_be_there) {
  constexpr unsigned threads = 3;
  const auto pool = worker_pool::start(threads, shared_bytes);
  ASSERT_TRUE(pool);
  const std::vector<std::byte> here(std::size_t{1} << 20);
  const std::array<fetch_ahead, threads> next = {
      {{here.data(), here.size()}, {}, {reinterpret_cast<const std::byte*>(64), 1 << 20}}};
  counts c(7);
  std::vector<cpu_phase> phases;
  for (std::uint32_t k = 0; k < 200; k++) {
    phases.push_back(counting(c, 7, 1, group_order::x_first, std::uint64_t{k} * 7));
    phases.back().next = next;
  }
  (*pool)->submit(phases);
  (*pool)->wait();
  for (const auto& runs : c.runs) EXPECT_EQ(runs.load(), 200u);
  EXPECT_EQ(c.out_of_turn.load(), 0u);
}

}  // namespace
}  // namespace terrane::engine
