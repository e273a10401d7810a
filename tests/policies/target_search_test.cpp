// Which of the devices that a target stands for a candidate goes to.
#include "policies/planner/target_search.hpp"

#include <gtest/gtest.h>

#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"
#include "tests/policies/set_of.hpp"

namespace terrane::policies {
namespace {

using tests::gib;
using tests::machine;
using tests::mib;
using tests::set_of;

const char* const hot =
    "  - name: hot\n    for_each: cpu\n    min_stay: 0s\n"
    "    enter: {metric: vram.used_ratio, above: 0.5}\n"
    "    leave: {metric: vram.used_ratio, below: 0.1}\n"
    "    do: {move: layers, to: cuda, order: best}\n";

// Two cards of a driver stand for a target; the first has no room.
TEST(target_search, tries_each_device_that_a_target_stands_for) {
  const policy_set_ptr policies = set_of(hot);
  machine m;
  m.add_device("cpu", 1 * gib, 700 * mib);
  m.add_device("cuda:a", 1 * gib, 1 * gib);
  m.add_device("cuda:b", 1 * gib);
  m.add_layers(1, 100 * mib, 200 * mib, "cpu");
  pipeline_state state;
  const decision d = evaluate(*policies, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 2u);
  for (const planned_move& move : d.planned.moves) EXPECT_EQ(move.to, "cuda:b");
  // Where none has room, that is what is told.
  m.device("cuda:b").others = 1 * gib;
  pipeline_state other;
  const decision none = evaluate(*policies, m.at(0), other);
  EXPECT_TRUE(none.planned.moves.empty());
  EXPECT_EQ(none.records.at(0).candidates.at(0).removed_by, filter::no_room);
}

// The order goes by what the way to a device costs, also where a driver's name stands for it.
TEST(target_search, scores_by_the_link_to_a_device_that_a_target_stands_for) {
  const policy_set_ptr policies = set_of(hot);
  machine m;
  m.add_device("cpu", 1 * gib, 700 * mib);
  m.add_device("cuda:a", 2 * gib);
  m.add_part("layer.0.attn", 100 * mib, "cpu");
  m.add_part("layer.0.ffn", 200 * mib, "cpu");
  snapshot now = m.at(0);
  // A pause that weighs more on what is small: known only when the way is.
  now.links.push_back({"cpu", "cuda:a", 1e9, 1000});
  pipeline_state state;
  const decision d = evaluate(*policies, now, state);
  ASSERT_EQ(d.planned.moves.size(), 2u);
  EXPECT_EQ(d.planned.moves[0].subject, "layer.0.ffn");
}

}  // namespace
}  // namespace terrane::policies
