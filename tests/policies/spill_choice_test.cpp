// KV or weights: both reports of users.md come out of the same sums.
#include "policies/placement/spill_choice.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/planner/cheaper_spill.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies::tests {
namespace {

using placement::choose_spill;
using placement::spill_question;
using placement::spilled;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1U << 20, gib = 1U << 30;

// A card that is 4 GiB short beside a CPU.
spill_question card_and_cpu() {
  spill_question q;
  q.needed_bytes = 4 * gib;
  q.here = {600e9, 500e9};
  q.there = {40e9, 40e9};
  q.hop_s = 20e-6;
  q.weight_bytes = 9 * gib;
  q.part_bytes = 120 * mib;
  q.busy_kv_bytes = 6 * gib;
  q.kv_layers = 40;
  q.link_bytes_per_s = 12e9;
  return q;
}

// A context that is long on paper and mostly a sliding window: little of the KV is read.
TEST(spill_choice, kv_goes_where_a_token_reads_little_of_it) {
  spill_question q = card_and_cpu();
  q.read_share = 0.1;
  const auto a = choose_spill(q);
  EXPECT_EQ(a.what, spilled::kv);
  EXPECT_LT(a.kv_cost_s * 4, a.weight_cost_s);
  EXPECT_THAT(a.reason, HasSubstr("KV alone would add"));
}

TEST(spill_choice, says_when_one_alone_does_not_do) {
  spill_question q = card_and_cpu();
  q.busy_kv_bytes = 0;
  const auto a = choose_spill(q);
  EXPECT_EQ(a.what, spilled::weights);
  EXPECT_THAT(a.reason, HasSubstr("KV alone would not free enough, weights alone would add"));
}

// The same machine where attention there is slow: the later commenter's case.
TEST(spill_choice, weights_go_where_attention_is_slow_over_there) {
  spill_question q = card_and_cpu();
  q.there.kv = 8e9;
  const auto a = choose_spill(q);
  EXPECT_EQ(a.what, spilled::weights);
  EXPECT_GT(a.kv_cost_s, 3 * a.weight_cost_s);
}

TEST(spill_choice, many_layers_over_a_slow_way_are_dear) {
  spill_question q = card_and_cpu();
  q.needed_bytes = 100 * mib;
  q.hop_s = 1e-6;
  EXPECT_EQ(choose_spill(q).what, spilled::kv);  // 100 MiB of pages against a whole part
  q.hop_s = 2e-3;
  EXPECT_EQ(choose_spill(q).what, spilled::weights);  // 80 hops against two
}

TEST(spill_choice, idle_kv_goes_first_and_parts_for_the_rest) {
  spill_question q = card_and_cpu();
  q.there.kv = 8e9;
  q.idle_kv_bytes = 3 * gib;
  const auto a = choose_spill(q);
  EXPECT_EQ(a.what, spilled::kv_then_weights);
  EXPECT_EQ(a.kv_bytes, 3 * gib);
  EXPECT_GE(a.weight_bytes, 1 * gib);
  EXPECT_EQ(a.weight_bytes % q.part_bytes, 0U);
  // Sessions that wake all the time are no good to spill.
  q.wakes_per_token = 0.5;
  EXPECT_EQ(choose_spill(q).what, spilled::weights);
}

TEST(spill_choice, says_when_all_is_not_enough) {
  spill_question q = card_and_cpu();
  q.needed_bytes = 20 * gib;
  EXPECT_EQ(choose_spill(q).what, spilled::not_enough);
  q.needed_bytes = 14 * gib;
  const auto a = choose_spill(q);
  EXPECT_EQ(a.what, spilled::kv_then_weights);
  EXPECT_EQ(a.kv_bytes, 6 * gib);
  EXPECT_TRUE(std::isinf(a.kv_cost_s) && std::isinf(a.weight_cost_s));
  q.needed_bytes = 0;
  EXPECT_EQ(choose_spill(q).what, spilled::nothing);
}

// Attention's own times are its share by bytes and say nothing of KV: without a measured speed KV
// is taken to be read as fast as weights, and it is said so.
TEST(spill_choice, says_what_the_speed_of_kv_rests_on) {
  machine m;
  m.add_device("cpu", 64.0 * gib);
  m.add_device("gpu", 8.0 * gib);
  m.device("cpu").weights_per_s = 40e9;
  m.device("gpu").weights_per_s = 600e9;
  m.device("cpu").kv_per_s = 1e9;
  m.add_layers(4, 100.0 * mib, 300.0 * mib, "gpu");
  m.add_session("talks", 8000, 1.0 * gib, "gpu");
  const auto chosen = [](const snapshot& now) {
    const target_choice to{target_kind::cpu, {}};
    return spill_cheaper(now, {&now.devices[1], 300 * mib, {to}, ordering::best, 0, "full"});
  };
  snapshot now = m.at(0);
  EXPECT_EQ(chosen(now).what, spilled::weights);
  EXPECT_THAT(chosen(now).note, HasSubstr("KV is read at 559 GiB/s on gpu and at 954 MiB/s"));
  now.devices[0].kv_bytes_per_s = 0;
  EXPECT_THAT(chosen(now).note, HasSubstr("taken to be read as fast as weights"));
}

}  // namespace
}  // namespace terrane::policies::tests
