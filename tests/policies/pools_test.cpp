// One rule makes the pools of memory, for a load and for a snapshot.
#include "policies/placement/pools.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/placement/of_snapshots.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies::tests {
namespace {

using placement::make_pools;
using placement::memory_source;
using placement::pool;
using ::testing::ElementsAre;

constexpr std::uint64_t gib_bytes = std::uint64_t{1} << 30;

TEST(placement_pools, are_of_cards_and_of_the_host) {
  const std::vector<memory_source> all = {
      {"", true, 20 * gib_bytes, 0},  {"a", false, 8 * gib_bytes, 0},
      {"b", false, 8 * gib_bytes, 0}, {"a", false, 7 * gib_bytes, 0},
      {"", true, 16 * gib_bytes, 0},  {"", false, gib_bytes, 0},
      {"", false, gib_bytes, 0}};
  const std::vector<pool> pools = make_pools(all, 24 * gib_bytes);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].name, "the host's memory");
  EXPECT_THAT(pools[0].devices, ElementsAre(0, 4));
  EXPECT_EQ(pools[0].budget_bytes, 24 * gib_bytes);
  EXPECT_EQ(pools[1].name, "the memory of card a");
  EXPECT_THAT(pools[1].devices, ElementsAre(1, 3));
  EXPECT_EQ(pools[1].budget_bytes, 8 * gib_bytes);
  EXPECT_EQ(make_pools(all, 0).size(), 1U);  // of the host nothing is known
}

TEST(placement_pools, a_card_has_what_is_known_of_it) {
  const auto of = [](memory_source a, memory_source b) {
    a.card = b.card = "a";
    return make_pools({a, b}, 0).at(0).budget_bytes / gib_bytes;
  };
  // Two budgets of 4 on a card of 24 are 8 together.
  EXPECT_EQ(of({"", false, 4 * gib_bytes, 24 * gib_bytes}, {"", false, 4 * gib_bytes, 0}), 24U);
  // The driver that sees more used is believed.
  EXPECT_EQ(
      of({"", false, 9 * gib_bytes, 20 * gib_bytes}, {"", false, 9 * gib_bytes, 18 * gib_bytes}),
      18U);
  // A budget is what somebody wants, whatever others use.
  EXPECT_EQ(of({"", false, 20 * gib_bytes, 16 * gib_bytes}, {"", false, gib_bytes, 16 * gib_bytes}),
            20U);
}

TEST(placement_pools, of_a_snapshot_are_those_of_a_load) {
  machine m;
  m.add_device("cpu", 32 * gib, 4 * gib).state.host_memory = true;
  m.add_device("vulkan:integrated", 16 * gib).state.host_memory = true;
  m.add_device("cuda:a", 24 * gib, 2 * gib).state.card = "a";
  m.add_device("vulkan:a", 24 * gib, 2 * gib).state.card = "a";
  m.device("cuda:a").state.memory_bytes = m.device("vulkan:a").state.memory_bytes = 24 * gib_bytes;
  m.add_part("head", 2 * gib, "cpu");
  snapshot now = m.at(0);
  now.host.memory_available = {20 * gib, 0};
  const auto two = placement::between(now, now);
  ASSERT_TRUE(two.has_value()) << two.error();
  ASSERT_EQ(two->asked.pools.size(), 2U);
  EXPECT_THAT(two->asked.pools[0].devices, ElementsAre(0, 1));
  // What is free, and what the model has of it.
  const std::uint64_t ours = static_cast<std::uint64_t>(now.devices[0].vram_ours.value);
  EXPECT_EQ(two->asked.pools[0].budget_bytes, 20 * gib_bytes + ours);
  EXPECT_THAT(two->asked.pools[1].devices, ElementsAre(2, 3));
  EXPECT_EQ(two->asked.pools[1].budget_bytes, 22 * gib_bytes);
}

// Under a budget a device is as large as the budget, whatever others use of the rest.
TEST(placement_pools, others_count_only_where_there_is_no_budget) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 4 * gib);
  m.add_part("head", gib, "gpu");
  snapshot now = m.at(0);
  now.devices[1].vram_others = {6 * gib, 0};
  now.devices[1].vram_ours = now.devices[1].vram_used = {gib, 0};
  const auto two = placement::between(now, now);
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->asked.devices[1].budget_bytes, 4 * gib_bytes);
  EXPECT_EQ(two->asked.devices[1].others_bytes, 0U);
}

}  // namespace
}  // namespace terrane::policies::tests
