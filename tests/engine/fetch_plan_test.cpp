// What idle workers of the CPU fetch: the beginning of what they read next.
#include "engine/device/cpu/fetch_plan.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

constexpr std::size_t enough = std::size_t{1} << 30;

struct list {
  std::vector<dispatch> dispatches;
  std::vector<cpu_phase> phases;

  dispatch& add(std::uint32_t groups_x, std::uint32_t groups_y = 1,
                group_order order = group_order::x_first) {
    dispatch& d = dispatches.emplace_back();
    d.groups_x = groups_x;
    d.groups_y = groups_y;
    d.order = order;
    return d;
  }
  fetch_plan plan(unsigned threads, std::size_t most) {
    for (const dispatch& d : dispatches)
      phases.push_back({nullptr, d.groups_x, d.groups_y, {}, d.order, {}});
    return fetch_plan(phases, dispatches, threads, most);
  }
  std::uint64_t from(std::size_t phase, std::size_t worker) const {
    return reinterpret_cast<std::uint64_t>(phases[phase].next[worker].from);
  }
  std::size_t bytes(std::size_t phase, std::size_t worker) const {
    return phases[phase].next[worker].bytes;
  }
};

// Three matrices of 8, 2 and 2 groups: q, k and v.
TEST(fetch_plan, each_worker_begins_where_its_share_of_the_next_matrices_does) {
  list l;
  l.add(1);  // a norm
  l.add(12).matrices = {{{0x10000, 8 * 100, 8}, {0x20000, 2 * 60, 2}, {0x30000, 2 * 80, 2}}};
  l.add(5);  // attention
  const fetch_plan plan = l.plan(3, enough);
  EXPECT_EQ(l.from(0, 0), 0x10000u);
  EXPECT_EQ(l.bytes(0, 0), 400u);
  EXPECT_EQ(l.from(0, 1), 0x10000u + 400);
  EXPECT_EQ(l.bytes(0, 1), 400u);
  EXPECT_EQ(l.from(0, 2), 0x20000u);
  EXPECT_EQ(l.bytes(0, 2), 120u);  // of the first matrix in its share
  EXPECT_TRUE(l.phases[1].next.empty());
  EXPECT_TRUE(l.phases[2].next.empty());
}

TEST(fetch_plan, all_phases_before_a_matrix_fetch_it_and_no_more_than_the_limit) {
  list l;
  l.add(4).matrices = {{{0x10000, 400, 4}}};
  l.add(1);
  l.add(9);
  l.add(4).matrices = {{{0x20000, 4000, 4}}};
  const fetch_plan plan = l.plan(2, 1500);
  for (std::size_t phase : {0, 1, 2}) {
    EXPECT_EQ(l.from(phase, 0), 0x20000u);
    EXPECT_EQ(l.from(phase, 1), 0x20000u + 2000);
    EXPECT_EQ(l.bytes(phase, 1), 1500u);
  }
}

// Two parts a group, and a last group of one.
TEST(fetch_plan, counts_parts_of_groups_in_both_orders) {
  for (group_order order : {group_order::x_first, group_order::y_first}) {
    list l;
    l.add(1);
    l.add(3, 2, order).matrices = {{{0x10000, 500, 5}}};
    const fetch_plan plan = l.plan(2, enough);
    const bool x_first = order == group_order::x_first;
    EXPECT_EQ(l.from(0, 0), 0x10000u);
    EXPECT_EQ(l.bytes(0, 0), x_first ? 500u : 400u);
    EXPECT_EQ(l.from(0, 1), x_first ? 0x10000u : 0x10000u + 200);
    EXPECT_EQ(l.bytes(0, 1), x_first ? 500u : 300u);
  }
}

TEST(fetch_plan, workers_without_a_share_fetch_nothing) {
  list l;
  l.add(1);
  l.add(1).matrices = {{{0x10000, 100, 1}}};
  const fetch_plan plan = l.plan(3, enough);
  EXPECT_EQ(l.bytes(0, 0) + l.bytes(0, 1), 0u);
  EXPECT_EQ(l.bytes(0, 2), 100u);
}

}  // namespace
}  // namespace terrane::engine
