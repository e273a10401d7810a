// The planner of placements against every placement there is, on small machines; and against its
// own bound on large ones.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/placement/planner.hpp"
#include "tests/policies/placement_cases.hpp"

namespace terrane::policies::tests {
namespace {

using placement::answer;
using placement::effort;
using placement::obstacle;
using placement::placed;
using placement::request;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1U << 20, gib = 1U << 30;

void expect_best(std::uint64_t seed, const case_shape& shape, const effort& most, double share) {
  std::mt19937_64 random(seed);
  const request r = random_request(random, shape);
  const std::optional<double> best = least_token_s(r);
  const auto sound = placement::check(r);
  const auto a = placement::plan(r, most);
  if (!best) {
    EXPECT_FALSE(a.has_value()) << "seed " << seed;
    return;
  }
  ASSERT_TRUE(sound.has_value()) << "seed " << seed << ": " << sound.error().message;
  ASSERT_TRUE(a.has_value()) << "seed " << seed << ": " << a.error().message;
  const auto legal = placement::check(r, a->where);
  EXPECT_TRUE(legal.has_value()) << "seed " << seed << ": " << legal.error().message;
  EXPECT_GE(a->predicted.token_s, *best * (1 - 1e-9)) << "seed " << seed;
  EXPECT_LE(a->bound_s, *best * (1 + 1e-6)) << "seed " << seed;
  const double allowed = a->exact ? 1e-6 : share;
  EXPECT_LE(a->predicted.token_s, *best * (1 + allowed)) << "seed " << seed;
}

struct family {
  const char* name;
  case_shape shape;
  int cases;
};

const family families[] = {
    {"any", {7, 3, false, 0.75, 0.05}, 250},
    {"layers alike", {8, 3, true, 0.75, 0.05}, 150},
    {"no room to spare", {7, 3, false, 0.95, 0.02}, 250},
    {"crossings cost much", {7, 3, false, 0.7, 0.4}, 150},
    {"four devices", {6, 4, false, 0.8, 0.03}, 150},
    {"pins, exclusions, limits", {7, 3, false, 0.6, 0.05, true}, 250},
    {"a shared matrix", {7, 3, false, 0.85, 0.05, false, true}, 250},
    {"a shared matrix and pins", {6, 3, true, 0.75, 0.05, true, true}, 250},
};

TEST(placement_plan, is_the_best_there_is_on_small_machines) {
  std::uint64_t seed = 1;
  for (const family& f : families) {
    SCOPED_TRACE(f.name);
    for (int i = 0; i < f.cases; ++i) expect_best(seed++, f.shape, {}, 1e-6);
  }
}

// With next to no search: what prices, beam and small changes reach alone.
TEST(placement_plan, is_near_the_best_without_a_search) {
  effort little;
  little.steps = little.steps_when_small = 200;
  double worst = 0, sum = 0;
  int cases = 0;
  for (std::uint64_t seed = 5000; seed < 5400; ++seed) {
    std::mt19937_64 random(seed);
    const request r = random_request(random, {8, 3, seed % 2 == 0, 0.7, 0.04});
    const auto best = least_token_s(r);
    const auto a = placement::plan(r, little);
    if (!best || !a) continue;
    const double off = a->predicted.token_s / *best - 1;
    worst = std::max(worst, off);
    sum += off;
    cases++;
  }
  ASSERT_GT(cases, 250);
  EXPECT_LT(sum / cases, 0.002);
  EXPECT_LT(worst, 0.1);
}

request two_cards_and_a_cpu() {
  request r = transformer(32, 40 * mib, 120 * mib, 64 * 1024);
  r.sessions = 2;
  add_device(r, "cpu", 64 * gib, 40e9);
  add_device(r, "cuda:fast", 4 * gib, 900e9);
  add_device(r, "cuda:slow", 3 * gib, 300e9);
  for (auto& d : r.devices) d.fee_bytes = 200 * mib;
  return r;
}

TEST(placement_plan, fills_the_fastest_first_and_crosses_seldom) {
  const request r = two_cards_and_a_cpu();
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_GT(a->predicted.devices[1].parts, a->predicted.devices[2].parts);
  EXPECT_GT(a->predicted.devices[2].parts, 0U);
  EXPECT_EQ(a->predicted.devices[0].parts, 0U);
  EXPECT_LE(a->predicted.crossings, 2U);
  EXPECT_LE(a->predicted.token_s, a->bound_s * 1.02);
  EXPECT_THAT(a->notes[1].reason, HasSubstr("the fastest"));
  EXPECT_THAT(a->notes[2].reason, HasSubstr("cuda:fast has room for"));
}

TEST(placement_plan, uses_one_device_where_one_is_enough) {
  request r = two_cards_and_a_cpu();
  r.devices[1].budget_bytes = 16 * gib;
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->predicted.crossings, 0U);
  EXPECT_EQ(a->predicted.devices[1].parts, r.parts.size());
  EXPECT_TRUE(a->exact);
  EXPECT_THAT(a->notes[2].reason, HasSubstr("slower than cuda:fast"));
}

TEST(placement_plan, leaves_out_a_device_slower_than_what_it_would_replace) {
  request r = transformer(16, 40 * mib, 120 * mib, 0);
  add_device(r, "cpu", 64 * gib, 40e9);
  add_device(r, "vulkan:integrated", 8 * gib, 25e9);
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->predicted.devices[1].parts, 0U);
  EXPECT_THAT(a->notes[1].reason, HasSubstr("slower than cpu"));
}

TEST(placement_plan, leaves_out_a_small_card_whose_scratch_takes_it_all) {
  request r = two_cards_and_a_cpu();
  r.devices[2].budget_bytes = 230 * mib;
  r.devices[2].fee_bytes = 220 * mib;
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->predicted.devices[2].parts, 0U);
  EXPECT_THAT(a->notes[2].reason, HasSubstr("the smallest part needs"));
}

TEST(placement_plan, fills_a_later_rank_only_with_what_must_spill) {
  request r = two_cards_and_a_cpu();
  r.devices[0].rank = 2;  // the CPU, last
  r.devices[1].rank = 1;  // the fast card after the slow one
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value());
  const auto& used = a->predicted.devices;
  EXPECT_GT(used[2].parts, 0U);
  EXPECT_GT(used[1].parts, 0U);
  // Nothing on the last rank would fit on the ones before.
  std::uint64_t smallest = gib;
  for (std::uint32_t p = 0; p < r.parts.size(); ++p)
    if (a->where[p] == 0) smallest = std::min(smallest, placement::own_bytes(r, p));
  EXPECT_LT(used[1].room_bytes + used[2].room_bytes, 3 * smallest);

  r.devices[1].budget_bytes = r.devices[2].budget_bytes = 8 * gib;
  const auto enough = placement::plan(r);
  ASSERT_TRUE(enough.has_value());
  EXPECT_EQ(enough->predicted.devices[0].parts, 0U);
  EXPECT_EQ(enough->predicted.devices[1].parts, 0U);  // all fits on the slow card, which is first
}

TEST(placement_plan, answers_alike_each_time) {
  const request r = two_cards_and_a_cpu();
  EXPECT_EQ(placement::plan(r)->where, placement::plan(r)->where);
}

TEST(placement_plan, is_never_slower_than_what_is_now) {
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const request r = random_request(random, {24, 4, false, 0.9, 0.02});
    effort much;
    much.width = 40;
    const auto good = placement::plan(r, much);
    if (!good) continue;
    const effort none = {1, 1, 0, 1, 1};
    const auto a = placement::plan(r, none, good->where);
    ASSERT_TRUE(a.has_value());
    EXPECT_LE(a->predicted.token_s, good->predicted.token_s * (1 + 1e-9)) << "seed " << seed;
  }
}

// Two drivers of one card, or the CPU and an integrated GPU: what each could hold alone, they have
// together.
TEST(placement_plan, devices_of_one_pool_hold_no_more_than_it_has) {
  int legal = 0, missed = 0;
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    request r = random_request(random, {7, 3, seed % 2 == 0, 0.55, 0.05});
    const std::uint64_t larger = std::max(r.devices[0].budget_bytes, r.devices[2].budget_bytes);
    r.pools = {{"the host's memory", {0, 2}, larger + larger / 10}};
    const std::optional<double> best = least_token_s(r);
    const auto a = placement::plan(r);
    if (!best) {
      EXPECT_FALSE(a.has_value()) << "seed " << seed;
      continue;
    }
    ++legal;
    if (!a) {
      ++missed;
      continue;
    }
    const auto sound = placement::check(r, a->where);
    EXPECT_TRUE(sound.has_value()) << "seed " << seed << ": " << sound.error().message;
    EXPECT_GE(a->predicted.token_s, *best * (1 - 1e-9)) << "seed " << seed;
    EXPECT_LE(a->bound_s, *best * (1 + 1e-6)) << "seed " << seed;
    EXPECT_TRUE(a->exact) << "seed " << seed;
    worst = std::max(worst, a->predicted.token_s / *best);
  }
  EXPECT_GT(legal, 200);
  EXPECT_EQ(missed, 0);
  EXPECT_LE(worst, 1 + 1e-6);
}

// Larger ones than can be looked through, against a bound that no placement passes: with a pool the
// answers are about as close to it as without.
TEST(placement_plan, larger_machines_with_pools_come_as_close_to_the_bound_as_others) {
  std::vector<double> with, without;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    request r = random_request(random, {60, 5, seed % 2 == 0, 0.7, 0.02});
    const auto apart = placement::plan(r);
    if (apart) without.push_back(apart->predicted.token_s / apart->bound_s - 1);
    const std::uint64_t larger = std::max(r.devices[1].budget_bytes, r.devices[3].budget_bytes);
    r.pools = {{"the memory of one card", {1, 3}, larger + larger / 10}};
    const auto a = placement::plan(r);
    if (!a) continue;
    EXPECT_TRUE(placement::check(r, a->where).has_value()) << "seed " << seed;
    with.push_back(a->predicted.token_s / a->bound_s - 1);
  }
  ASSERT_GT(with.size(), 30U);
  std::ranges::sort(with);
  std::ranges::sort(without);
  EXPECT_LE(with[with.size() / 2], 0.09) << without[without.size() / 2];
  EXPECT_LE(with.back(), 0.2) << without.back();
}

TEST(placement_plan, two_drivers_of_a_card_are_one_card) {
  request r = transformer(32, 40 * mib, 120 * mib, 64 * 1024);
  const std::uint32_t cuda = add_device(r, "cuda", 4 * gib, 900e9);
  const std::uint32_t vulkan = add_device(r, "vulkan", 4 * gib, 600e9);
  const std::uint32_t cpu = add_device(r, "cpu", 64 * gib, 50e9);
  r.sessions = 4;
  r.context_tokens = 16384;
  r.pools = {{"the memory of one card", {cuda, vulkan}, 4 * gib}};
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_GT(a->predicted.devices[cuda].parts, 0U);
  EXPECT_EQ(a->predicted.devices[vulkan].parts, 0U);
  EXPECT_GT(a->predicted.devices[cpu].parts, 0U);
  EXPECT_THAT(a->notes[vulkan].reason, HasSubstr("it shares the memory of one card with cuda"));
  // Where the card is all there is, its memory is not counted twice.
  r.devices[cpu].left_out = "its speed could not be measured";
  const auto none = placement::plan(r);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().what, obstacle::weights);
  EXPECT_THAT(none.error().message,
              HasSubstr("cuda and vulkan share the memory of one card, 4 GiB"));
  EXPECT_THAT(none.error().message, HasSubstr("cpu is left out: its speed could not be measured"));
}

// Eight cards, each with two drivers.
TEST(placement_plan, keeps_to_many_pools) {
  request r = transformer(64, 400 * mib, 1200 * mib, 64 * 1024);
  for (std::uint32_t card = 0; card < 8; card++) {
    const std::string name = std::to_string(card);
    const std::uint32_t cuda = add_device(r, "cuda:" + name, 13 * gib, 900e9);
    const std::uint32_t vulkan = add_device(r, "vulkan:" + name, 13 * gib, 880e9);
    r.pools.push_back({"the memory of card " + name, {cuda, vulkan}, 13 * gib});
  }
  add_device(r, "cpu", 512 * gib, 50e9);
  const auto a = placement::plan(r, {20, 4, 2, 2'000, 100'000});
  ASSERT_TRUE(a.has_value()) << a.error().message;
  for (const auto& pool : r.pools) {
    std::uint64_t held = 0;
    for (std::uint32_t d : pool.devices) held += a->predicted.devices[d].held_bytes();
    EXPECT_LE(held, pool.budget_bytes) << pool.name;
  }
}

TEST(placement_plan, what_one_of_a_pool_cannot_hold_another_may) {
  // 5 GiB of weights; the CPU may have 4 of the host's 6, the integrated GPU as much.
  request r = transformer(32, 40 * mib, 120 * mib, 0);
  add_device(r, "cpu", 4 * gib, 50e9);
  add_device(r, "integrated", 4 * gib, 40e9);
  r.pools = {{"the host's memory", {0, 1}, 6 * gib}};
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_GT(a->predicted.devices[0].parts, a->predicted.devices[1].parts);
  r.pools[0].budget_bytes = 5 * gib;
  const auto none = placement::plan(r);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().what, obstacle::weights);
}

TEST(placement_plan, refuses_numbers_that_are_none_or_too_large_to_count) {
  const auto refused = [](auto spoil) {
    request r = transformer(2, mib, mib, 1024);
    add_device(r, "one", gib, 100e9);
    add_device(r, "two", gib, 100e9);
    spoil(r);
    const auto a = placement::plan(r);
    return a ? std::string("accepted") : to_string(a.error().what) + (": " + a.error().message);
  };
  EXPECT_EQ(refused([](request&) {}), "accepted");
  EXPECT_THAT(refused([](request& r) {
                r.links = {{0, 1, {std::nan(""), 1e9}}};
              }),
              HasSubstr("malformed: the link from one to two"));
  EXPECT_THAT(refused([](request& r) { r.links = {{0, 1, {0, -1}}}; }), HasSubstr("malformed"));
  EXPECT_THAT(refused([](request& r) { r.far.bytes_per_s = std::nan(""); }),
              HasSubstr("malformed: the links of sites"));
  EXPECT_THAT(refused([](request& r) { r.devices[1].budget_bytes = ~0ULL; }),
              HasSubstr("malformed: device two has more bytes"));
  EXPECT_THAT(refused([](request& r) { r.parts[1].weight_bytes = 1ULL << 63; }),
              HasSubstr("malformed: the parts have more bytes"));
  EXPECT_THAT(refused([](request& r) {
                r.context_tokens = r.sessions = ~0U;
                r.parts[1].kv_page_bytes = 1ULL << 40;
              }),
              HasSubstr("malformed: the parts have more bytes"));
  EXPECT_THAT(refused([](request& r) {
                r.pools = {{"all", {0, 0}, gib}};
              }),
              HasSubstr("malformed: all has a device"));
}

TEST(placement_plan, a_limit_counts_wherever_room_is_told) {
  request r = transformer(8, 40 * mib, 120 * mib, 0);
  add_device(r, "limited", 8 * gib, 900e9);
  add_device(r, "slow", 8 * gib, 50e9);
  r.limits = {{0, 600 * mib, "policy quiet"}};
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_LT(a->predicted.devices[0].room_bytes, 160 * mib);
  r.limits = {{0, mib, "policy quiet"}};
  const auto other = placement::plan(r);
  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(other->notes[0].reason, HasSubstr("it has room for 1 MiB"));
  r.devices[1].left_out = "broken";
  const auto none = placement::plan(r);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().what, obstacle::weights);
}

TEST(placement_plan, names_what_contradicts) {
  request r = two_cards_and_a_cpu();
  r.pins = {{3, 1, "configuration"}, {3, 2, "policy quiet"}};
  EXPECT_EQ(placement::plan(r).error().what, obstacle::contradiction);
  EXPECT_THAT(placement::plan(r).error().message, HasSubstr("policy quiet"));
  r.pins = {{3, 1, "configuration"}};
  r.exclusions = {{std::nullopt, 1, "policy evacuate"}};
  EXPECT_THAT(placement::plan(r).error().message, HasSubstr("policy evacuate"));
  r.exclusions.clear();
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) r.pins.push_back({p, 1, "configuration"});
  EXPECT_EQ(placement::plan(r).error().what, obstacle::contradiction);
  EXPECT_THAT(placement::plan(r).error().message, HasSubstr("cuda:fast, which has room for"));
}

TEST(placement_plan, names_the_term_that_blocks) {
  request r = transformer(32, 40 * mib, 120 * mib, 256 * 1024);
  add_device(r, "gpu", 8 * gib, 900e9);
  r.devices[0].fee_bytes = 200 * mib;
  r.sessions = 2;
  ASSERT_TRUE(placement::plan(r).has_value()) << placement::plan(r).error().message;
  request longer = r;
  longer.context_tokens = 100'000;
  EXPECT_EQ(placement::plan(longer).error().what, obstacle::kv);
  request kept = r;
  kept.devices[0].reserve_bytes = gib;
  EXPECT_EQ(placement::plan(kept).error().what, obstacle::reserve);
  request shared = r;
  shared.devices[0].budget_bytes -= gib;
  shared.devices[0].others_bytes = gib;
  EXPECT_EQ(placement::plan(shared).error().what, obstacle::others);
  request small = r;
  small.devices[0].budget_bytes = 2 * gib;
  EXPECT_EQ(placement::plan(small).error().what, obstacle::weights);
  request split = small;  // two halves that add up, and a part that fits in neither
  split.parts.resize(1);
  split.parts[0].weight_bytes = 3 * gib;
  split.devices.push_back(split.devices[0]);
  EXPECT_EQ(placement::plan(split).error().what, obstacle::weights);
  EXPECT_THAT(placement::plan(split).error().message, HasSubstr("no device has room for more"));
}

TEST(placement_predict, adds_up_what_a_token_takes) {
  request r = transformer(1, 10 * mib, 20 * mib, 1024);
  add_device(r, "a", gib, 1e9);
  add_device(r, "b", gib, 2e9);
  r.context_tokens = 65;  // two pages
  r.sessions = 3;
  r.pages_together = 4;  // six pages, in fours
  r.devices[1].fee_bytes = 5 * mib;
  const auto p = placement::predict(r, {0, 0, 1, 0});
  EXPECT_EQ(p.crossings, 2U);
  EXPECT_DOUBLE_EQ(p.crossing_s, 2 * (30e-6 + 16384 / 10e9));
  EXPECT_EQ(p.devices[0].kv_bytes, 8U * 1024);
  EXPECT_EQ(p.devices[0].weight_bytes, 90U * mib);
  EXPECT_EQ(p.devices[1].fee_bytes, 5 * mib);
  EXPECT_EQ(p.devices[0].fee_bytes, 0U);
  EXPECT_DOUBLE_EQ(p.devices[1].seconds, 5e-6 + 20.0 * mib / 2e9);
  EXPECT_DOUBLE_EQ(p.token_s, p.parts_s + p.crossing_s);
}

// 200 parts on 8 cards of four kinds: within a twentieth of the bound, which no placement
// reaches: it fills every device to the last byte.
TEST(placement_plan, is_near_the_bound_on_eight_cards) {
  for (int tight = 0; tight < 6; ++tight) {
    request r = transformer(99, 60 * mib, 170 * mib, 512 * 1024);
    add_device(r, "cpu", 64 * gib, 60e9);
    for (int i = 1; i < 8; ++i)
      add_device(r, "gpu" + std::to_string(i),
                 (3 + static_cast<std::uint64_t>((i + tight) % 3)) * gib - tight * 100 * mib,
                 200e9 * (1 + i % 4));
    for (auto& d : r.devices) d.fee_bytes = 150 * mib;
    const auto a = placement::plan(r);
    ASSERT_TRUE(a.has_value()) << a.error().message;
    EXPECT_LE(a->predicted.token_s, a->bound_s * 1.06) << tight;
    EXPECT_TRUE(placement::check(r, a->where).has_value());
  }
}

// 64 hosts of five devices: as a fleet.
TEST(placement_plan, is_near_the_bound_on_a_fleet) {
  request r = transformer(1000, 60 * mib, 170 * mib, 64 * 1024);
  add_device(r, "cpu", 16 * gib, 60e9);
  add_device(r, "card", 2 * gib, 900e9);
  add_device(r, "old card", 1 * gib, 300e9);
  const std::vector<placement::device_supply> kinds = r.devices;
  r.devices.clear();
  for (std::uint32_t host = 0; host < 64; ++host)
    for (int i = 0; i < 5; ++i) {
      r.devices.push_back(kinds[i == 0 ? 0 : i < 3 ? 1 : 2]);
      r.devices.back().name += " " + std::to_string(host) + "." + std::to_string(i);
      r.devices.back().site = host;
      r.devices.back().fee_bytes = 100 * mib;
    }
  r.pins = {{0, 7, "test"}, {40, 9, "test"}};
  r.exclusions = {{std::nullopt, 11, "test"}, {12, 12, "test"}};
  const auto a = placement::plan(r);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  const auto legal = placement::check(r, a->where);
  EXPECT_TRUE(legal.has_value()) << legal.error().message;
  EXPECT_LE(a->predicted.token_s, a->bound_s * 1.1);
}

// The same with each card offered by two drivers, of which no one may take what the other has: the
// answer is about as good as where each card has one.
TEST(placement_plan, a_fleet_keeps_to_its_pools) {
  const auto hosts = [](bool two_drivers) {
    request r = transformer(1000, 60 * mib, 170 * mib, 64 * 1024);
    add_device(r, "cpu", 16 * gib, 60e9);
    add_device(r, "cuda", 2 * gib, 900e9);
    add_device(r, "vulkan", 2 * gib, 600e9);
    const std::vector<placement::device_supply> kinds = r.devices;
    r.devices.clear();
    for (std::uint32_t host = 0; host < 64; ++host)
      for (std::uint32_t i = 0; i < (two_drivers ? 5U : 3U); ++i) {
        r.devices.push_back(kinds[i == 0 ? 0 : i < 3 ? 1 : 2]);
        r.devices.back().name += " " + std::to_string(host) + "." + std::to_string(i);
        r.devices.back().site = host;
        r.devices.back().fee_bytes = 100 * mib;
      }
    for (std::uint32_t host = 0; two_drivers && host < 64; ++host)
      for (std::uint32_t card = 1; card <= 2; ++card)
        r.pools.push_back({"the memory of card " + std::to_string(host * 2 + card),
                           {host * 5 + card, host * 5 + card + 2},
                           2 * gib});
    return r;
  };
  const auto one = placement::plan(hosts(false));
  ASSERT_TRUE(one.has_value()) << one.error().message;
  const request r = hosts(true);
  const auto two = placement::plan(r);
  ASSERT_TRUE(two.has_value()) << two.error().message;
  const auto legal = placement::check(r, two->where);
  EXPECT_TRUE(legal.has_value()) << legal.error().message;
  EXPECT_LE(two->predicted.token_s, one->predicted.token_s * 1.02);
  EXPECT_LE(two->bound_s, two->predicted.token_s);
}

}  // namespace
}  // namespace terrane::policies::tests
