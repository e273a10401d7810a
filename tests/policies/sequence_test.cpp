// Sequences of moves against every order of moves there is, on small machines.
#include "policies/placement/sequence.hpp"

#include <map>
#include <queue>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/placement/planner.hpp"
#include "policies/placement/prediction.hpp"
#include "tests/policies/placement_cases.hpp"

namespace terrane::policies::tests {
namespace {

using placement::move_sequence;
using placement::obstacle;
using placement::placed;
using placement::request;
using placement::standing;
using ::testing::HasSubstr;

request boxes(const std::vector<std::uint64_t>& parts, const std::vector<std::uint64_t>& rooms) {
  request r;
  r.speeds = 1;
  r.seconds = {1};
  r.near = {0.001, 1000};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    r.parts.push_back({});
    r.parts.back().name = std::string(1, static_cast<char>('a' + p));
    r.parts.back().weight_bytes = parts[p];
  }
  for (std::size_t d = 0; d < rooms.size(); ++d) {
    r.devices.push_back({});
    r.devices.back().name = "d" + std::to_string(d);
    r.devices.back().budget_bytes = rooms[d];
  }
  return r;
}

// The fewest bytes that get from one placement to the other, or nothing. Parts that are where they
// belong stay.
std::optional<std::uint64_t> fewest_bytes(const request& r, const placed& from, const placed& to) {
  std::map<placed, std::uint64_t> best{{from, 0}};
  using node = std::pair<std::uint64_t, placed>;
  std::priority_queue<node, std::vector<node>, std::greater<>> open;
  open.push({0, from});
  while (!open.empty()) {
    const auto [spent, where] = open.top();
    open.pop();
    if (spent > best[where]) continue;
    if (where == to) return spent;
    for (std::uint32_t p = 0; p < where.size(); ++p) {
      if (from[p] == to[p]) continue;
      for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
        if (d == where[p]) continue;
        std::uint64_t held = r.parts[p].weight_bytes;
        for (std::uint32_t q = 0; q < where.size(); ++q)
          if (where[q] == d) held += r.parts[q].weight_bytes;
        if (held > r.devices[d].budget_bytes) continue;
        placed then = where;
        then[p] = d;
        const std::uint64_t cost = spent + r.parts[p].weight_bytes;
        const auto [at, fresh] = best.try_emplace(then, cost);
        if (!fresh && at->second <= cost) continue;
        at->second = cost;
        open.push({cost, then});
      }
    }
  }
  return std::nullopt;
}

TEST(placement_sequence, moves_the_fewest_bytes_and_breaks_no_budget) {
  int found = 0, aside = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> parts, rooms(3, 0);
    placed from, to;
    std::vector<std::uint64_t> then(3, 0);
    for (int p = 0; p < 6; ++p) {
      parts.push_back(1 + random() % 9);
      from.push_back(static_cast<std::uint32_t>(random() % 3));
      to.push_back(static_cast<std::uint32_t>(random() % 3));
      rooms[from.back()] += parts.back();
      then[to.back()] += parts.back();
    }
    for (int d = 0; d < 3; ++d) rooms[d] = std::max(rooms[d], then[d]) + random() % 4;
    const request r = boxes(parts, rooms);
    const auto s = placement::find_sequence(r, {from, {}}, to);
    const auto least = fewest_bytes(r, from, to);
    ASSERT_EQ(s.has_value(), least.has_value()) << "seed " << seed;
    if (!s) {
      refused++;
      EXPECT_EQ(s.error().what, obstacle::moves);
      continue;
    }
    found++;
    aside += s->asides != 0;
    EXPECT_EQ(s->bytes, *least) << "seed " << seed;
    const auto safe = placement::check(r, {from, {}}, *s);
    EXPECT_TRUE(safe.has_value()) << "seed " << seed << ": " << safe.error().message;
    EXPECT_EQ(placement::after(from, *s), to);
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(aside, 20);
  EXPECT_GT(refused, 20);
}

TEST(placement_sequence, takes_as_one_step_what_finds_room_at_once) {
  const request r = boxes({4, 4, 4}, {12, 12});
  const auto s = placement::find_sequence(r, {{0, 0, 0}, {}}, {1, 1, 1});
  ASSERT_TRUE(s.has_value());
  ASSERT_EQ(s->steps.size(), 1U);
  EXPECT_EQ(s->bytes, 12U);
  EXPECT_NEAR(s->seconds, 3 * (0.001 + 0.004), 1e-9);
}

TEST(placement_sequence, frees_before_it_fills) {
  // b has to leave d1 before a comes; c is in nobody's way.
  const request r = boxes({8, 8, 1}, {10, 9, 20});
  const auto s = placement::find_sequence(r, {{0, 1, 0}, {}}, {1, 2, 2});
  ASSERT_TRUE(s.has_value()) << s.error().message;
  ASSERT_EQ(s->steps.size(), 2U);
  EXPECT_EQ(s->steps[0].moves[0].part, 1U);
  EXPECT_EQ(s->steps[1].moves.front().part, 0U);
}

TEST(placement_sequence, a_circle_goes_over_a_third_device_or_is_named) {
  const request with = boxes({6, 6}, {6, 6, 6});
  const auto s = placement::find_sequence(with, {{0, 1}, {}}, {1, 0});
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->asides, 1U);
  EXPECT_EQ(s->bytes, 18U);
  const request without = boxes({6, 6}, {6, 6, 5});
  const auto none = placement::find_sequence(without, {{0, 1}, {}}, {1, 0});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("a on d0 needs 6 B on d1, which has 0 B; b on d1"));
}

TEST(placement_sequence, leaves_a_device_that_holds_more_than_it_may_now) {
  request r = boxes({6, 6}, {4, 20});  // others took memory of d0
  const auto s = placement::find_sequence(r, {{0, 0}, {}}, {1, 1});
  ASSERT_TRUE(s.has_value()) << s.error().message;
  EXPECT_FALSE(placement::find_sequence(r, {{0, 1}, {}}, {1, 0}).has_value());
}

TEST(placement_sequence, a_pool_holds_both_ends_of_a_move) {
  constexpr std::uint64_t mib = 1U << 20;
  placement::request r = transformer(1, 100 * mib, 100 * mib, 0);
  add_device(r, "cuda", 1024 * mib, 900e9);
  add_device(r, "vulkan", 1024 * mib, 600e9);
  const placement::placed target(r.parts.size(), 1);
  placement::standing now;
  now.where.assign(r.parts.size(), 0);
  EXPECT_TRUE(placement::find_sequence(r, now, target).has_value());
  const std::uint64_t all = placement::predict(r, now.where).devices[0].held_bytes();
  r.pools = {{"the memory of one card", {0, 1}, all + mib}};
  const auto none = placement::find_sequence(r, now, target);
  ASSERT_FALSE(none.has_value());
  r.pools[0].budget_bytes = 2 * all;
  EXPECT_TRUE(placement::find_sequence(r, now, target).has_value());
}

TEST(placement_sequence, counts_the_scratch_of_a_device_that_opens) {
  request r = boxes({6}, {10, 10});
  r.devices[1].fee_bytes = 5;
  EXPECT_FALSE(placement::find_sequence(r, {{0}, {}}, {1}).has_value());
  r.devices[1].budget_bytes = 11;
  EXPECT_TRUE(placement::find_sequence(r, {{0}, {}}, {1}).has_value());
  EXPECT_TRUE(placement::find_sequence(r, {{0}, {false, true}}, {1}).has_value());
}

TEST(placement_sequence, of_a_whole_model_moves_each_part_once) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    request r = random_request(random, {60, 5, true, 0.8, 0.02});
    const auto a = placement::plan(r);
    std::swap(r.devices[0].speed, r.devices[1].speed);
    const auto b = placement::plan(r);
    if (!a || !b) continue;
    const auto s = placement::find_sequence(r, {a->where, {}}, b->where);
    if (!s) continue;
    EXPECT_TRUE(placement::check(r, {a->where, {}}, *s).has_value());
    EXPECT_EQ(placement::after(a->where, *s), b->where);
  }
}

}  // namespace
}  // namespace terrane::policies::tests
