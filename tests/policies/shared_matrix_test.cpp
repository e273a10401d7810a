// Parts that read one matrix: what their moves take and free, and when they leave a device.
#include "policies/planner/shared_matrix.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"
#include "tests/policies/set_of.hpp"

namespace terrane::policies {
namespace {

using testing::HasSubstr;
using tests::gib;
using tests::machine;
using tests::mib;
using tests::set_of;

// A head that reads the embedding's matrix: a device has it once.
TEST(shared_matrix, counts_once_for_two_parts_that_read_it) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib, 6 * gib).state.temp_c = {95, 0};
  for (const char* name : {"embedding", "head"}) {
    part_state& p = m.add_part(name, 1 * gib, "vulkan:a");
    p.shared = 0;
    p.shared_bytes = static_cast<std::uint64_t>(1 * gib);
  }
  const auto moved = [&](const std::string& until, double cpu_others) {
    m.device("cpu").others = cpu_others;
    pipeline_state state;
    return evaluate(*set_of("  - name: hot\n    for_each: gpu\n"
                            "    enter: {metric: temp_c, above: 85C}\n"
                            "    leave: {metric: temp_c, below: 70C}\n"
                            "    do: {move: parts, until: " +
                            until + ", to: cpu}\n"),
                    m.at(0), state);
  };
  // Both take one matrix on the host, and room for one is enough.
  const decision both = moved("all", 31 * gib);
  ASSERT_EQ(both.planned.moves.size(), 2u);
  EXPECT_EQ(both.planned.moves[0].bytes, static_cast<std::uint64_t>(1 * gib));
  EXPECT_EQ(both.planned.moves[1].bytes, 0u);
  // The first of them frees nothing, so the second goes too.
  EXPECT_EQ(moved("512MiB", 0).planned.moves.size(), 2u);
}

struct tied_weights : testing::Test {
  machine m;

  tied_weights() {
    m.add_device("cpu", 32 * gib);
    m.add_device("vulkan:a", 8 * gib, 5 * gib);
    tie(m.add_part("embedding", 1 * gib, "vulkan:a"));
    m.add_layers(1, 100 * mib, 800 * mib, "vulkan:a");
    tie(m.add_part("head", 1 * gib + 1 * mib, "vulkan:a"));
  }
  static void tie(part_state& p) {
    p.shared = 0;
    p.shared_bytes = static_cast<std::uint64_t>(1 * gib);
  }
  std::vector<move_in_progress> moving;
  decision moved(const std::string& what, const std::string& until,
                 const std::string& mode = "enforce") {
    pipeline_state state;
    snapshot now = m.at(0);
    now.moving = moving;
    return evaluate(*set_of("  - name: full\n    for_each: gpu\n    mode: " + mode +
                            "\n    enter: {metric: vram.used_ratio, above: 90%}\n"
                            "    leave: {metric: vram.used_ratio, below: 80%}\n"
                            "    do: {move: " +
                            what + ", until: " + until + ", to: cpu}\n"),
                    now, state);
  }
};

TEST_F(tied_weights, one_of_the_parts_alone_frees_nothing_and_stays) {
  const decision d = moved("head", "leave");
  EXPECT_TRUE(d.planned.moves.empty());
  ASSERT_EQ(d.records.size(), 1u);
  ASSERT_EQ(d.records[0].candidates.size(), 1u);
  EXPECT_EQ(d.records[0].candidates[0].removed_by, filter::no_help);
  EXPECT_EQ(d.records[0].candidates[0].detail,
            "embedding reads the same matrix, which stays on vulkan:a with it: 1 MiB of 1.0 GiB "
            "would become free");
}

TEST_F(tied_weights, what_frees_nothing_alone_leaves_last) {
  // 7.9 of 8 GiB are used with the matrix counted twice, as this machine does; 1.5 GiB must go.
  const decision d = moved("parts", "leave");
  std::vector<std::string> order;
  std::uint64_t bytes = 0;
  for (const planned_move& one : d.planned.moves) {
    order.push_back(one.subject);
    bytes += one.bytes;
  }
  EXPECT_THAT(order, testing::ElementsAre("layer.0.ffn", "layer.0.attn", "head", "embedding"));
  EXPECT_EQ(bytes, static_cast<std::uint64_t>(901 * mib + 1 * gib));
  EXPECT_THAT(explain_text(d.records[0]), testing::Not(HasSubstr("could be planned")));
}

TEST_F(tied_weights, count_once_in_shadow_mode_too) {
  std::uint64_t bytes = 0;
  for (const planned_move& one : moved("parts", "all", "shadow").planned.shadow) bytes += one.bytes;
  EXPECT_EQ(bytes, static_cast<std::uint64_t>(901 * mib + 1 * gib));
}

// What a person moves is gone from there soon, too.
TEST_F(tied_weights, what_is_on_its_way_by_hand_does_not_stay) {
  move_in_progress by_hand;
  by_hand.id = 7;
  by_hand.subject = "embedding";
  by_hand.from = "vulkan:a";
  by_hand.to = "cpu";
  moving.push_back(by_hand);
  const decision d = moved("head", "leave");
  ASSERT_EQ(d.planned.moves.size(), 1u);
  EXPECT_EQ(d.planned.moves[0].subject, "head");
}

TEST_F(tied_weights, what_min_stay_keeps_beside_it_does_not_leave) {
  m.part("embedding").moved_ms = -1000;
  const decision d = moved("parts", "all");
  std::vector<std::string> left;
  for (const planned_move& one : d.planned.moves) left.push_back(one.subject);
  EXPECT_THAT(left, testing::ElementsAre("layer.0.ffn", "layer.0.attn"));
  const auto head =
      std::ranges::find(d.records.at(0).candidates, std::string("head"), &candidate::subject);
  ASSERT_NE(head, d.records.at(0).candidates.end());
  EXPECT_EQ(head->removed_by, filter::no_help);
  EXPECT_THAT(head->detail, HasSubstr("embedding reads the same matrix, which stays on vulkan:a"));
}

}  // namespace
}  // namespace terrane::policies
