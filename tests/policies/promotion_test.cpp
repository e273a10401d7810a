// Promotion beyond what scenarios can set up: what it counts, and when it says nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/pipeline/evaluate.hpp"
#include "policies/pipeline/what_if.hpp"
#include "policies/placement/of_snapshots.hpp"
#include "policies/placement/prediction.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tests::gib;
using tests::machine;
using tests::mib;

machine cpu_and_card(double card_bytes) {
  machine m;
  m.promotes = true;
  m.add_device("cpu", 64 * gib);
  m.add_device("cuda:a", card_bytes);
  m.device("cpu").weights_per_s = 40e9;
  m.device("cuda:a").weights_per_s = 600e9;
  return m;
}

std::vector<std::string> moves_in(machine& m, std::int64_t seconds) {
  const policy_set_ptr none = policy_set::empty();
  pipeline_state state;
  std::vector<std::string> moved;
  for (std::int64_t t = 0; t < seconds * 1000; t += 1000) {
    const decision d = evaluate(*none, m.at(t), state);
    for (const planned_move& p : d.planned.moves) moved.push_back(p.subject + " to " + p.to);
    m.carry_out(d.planned, t);
  }
  return moved;
}

TEST(promotion, says_nothing_where_there_is_nothing_to_choose) {
  machine m;
  m.promotes = true;
  m.add_device("cpu", 64 * gib);
  m.device("cpu").weights_per_s = 40e9;
  m.add_layers(4, 100 * mib, 300 * mib, "cpu");
  const policy_set_ptr none = policy_set::empty();
  pipeline_state state;
  for (std::int64_t t = 0; t < 600'000; t += 1000)
    EXPECT_THAT(evaluate(*none, m.at(t), state).records, IsEmpty()) << t;
}

TEST(promotion, is_off_unless_the_snapshot_has_it) {
  machine m = cpu_and_card(8 * gib);
  m.promotes = false;
  m.add_layers(2, 100 * mib, 300 * mib, "cpu");
  EXPECT_THAT(moves_in(m, 120), IsEmpty());
}

// Embedding and head read one matrix: beside each other they take it once.
TEST(promotion, counts_what_parts_share_once) {
  machine m = cpu_and_card(2.1 * gib);
  m.add_part("embedding", 1.4 * gib, "cuda:a");
  m.add_part("head", 1 * gib, "cpu");
  EXPECT_THAT(moves_in(m, 60), IsEmpty());
  machine shares = cpu_and_card(2.1 * gib);
  for (const auto& [name, bytes, on] :
       {std::tuple("embedding", 1.4 * gib, "cuda:a"), std::tuple("head", 1 * gib, "cpu")}) {
    part_state& p = shares.add_part(name, bytes, on);
    p.shared = 0;
    p.shared_bytes = static_cast<std::uint64_t>(0.9 * gib);
  }
  const auto found = placement::running_in(shares.at(0));
  ASSERT_TRUE(found.has_value());
  const auto together = placement::predict(found->asked, {1, 1});
  EXPECT_LT(together.devices[1].held_bytes(), 1.6 * gib);
}

// A layer whose state would have to travel further than it is worth stays.
TEST(promotion, counts_the_way_between_devices) {
  machine m = cpu_and_card(8 * gib);
  m.add_part("layer.0.ffn", 40 * mib, "cpu");  // a millisecond
  m.add_part("layer.1.ffn", 4 * gib, "cpu");
  m.part("layer.1.ffn").pinned = true;
  m.device("cuda:a").state.hop_ms = m.device("cpu").state.hop_ms = 0.01;
  const policy_set_ptr none = policy_set::empty();
  EXPECT_THAT(moves_in(m, 60), IsEmpty());  // one in a hundred: less than predictions are good for
  m.part("layer.1.ffn").weight_bytes = static_cast<std::uint64_t>(100 * mib);
  machine near = m;
  EXPECT_EQ(moves_in(near, 60).size(), 1U);
  m.device("cuda:a").state.hop_ms = m.device("cpu").state.hop_ms = 2;
  EXPECT_THAT(moves_in(m, 60), IsEmpty());
}

TEST(promotion, a_rank_is_filled_once_those_before_it_are) {
  machine m = cpu_and_card(8 * gib);
  m.add_device("cuda:b", 8 * gib).weights_per_s = 900e9;
  m.device("cuda:b").state.rank = 2;
  m.device("cpu").state.rank = 1;
  m.add_layers(2, 100 * mib, 300 * mib, "cpu");
  for (const std::string& move : moves_in(m, 60)) EXPECT_THAT(move, HasSubstr("to cuda:a"));
}

TEST(promotion, waits_until_parts_have_been_timed) {
  machine m = cpu_and_card(8 * gib);
  m.device("cpu").weights_per_s = m.device("cuda:a").weights_per_s = 0;
  m.add_layers(2, 100 * mib, 300 * mib, "cpu");
  const policy_set_ptr none = policy_set::empty();
  pipeline_state state;
  const decision d = evaluate_as_if_held(*none, m.at(0), state);
  ASSERT_EQ(d.records.size(), 1U);
  EXPECT_THAT(d.records[0].notes.at(0),
              HasSubstr("Nothing is promoted: how long parts take on cpu has not been measured"));
}

}  // namespace
}  // namespace terrane::policies
