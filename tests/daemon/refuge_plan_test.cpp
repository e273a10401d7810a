// Where the planner puts what was on a lost device, and what is said of it.
#include "daemon/placement/refuge_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

using testing::Each;
using testing::Optional;

struct refuge_plan_test : testing::Test {
  test_engine t = engine_with_a_card();
  std::vector<engine::device*> devices{t.engine->devices().begin(), t.engine->devices().end()};

  refuge_plan plan() {
    std::vector<device_facts> facts(2);
    for (std::size_t d = 0; d < 2; d++) {
      facts[d].name = devices[d]->info().name;
      facts[d].host_memory = true;
    }
    return {t.engine->loaded_model(), devices, std::move(facts), t.engine->options()};
  }
  engine::lost_placement half_lost() const {
    engine::lost_placement from{std::vector<std::uint32_t>(t.engine->status().parts.size(), 0),
                                {false, true}};
    for (std::size_t p = 0; p < from.parts.size(); p += 2) from.parts[p] = 1;
    return from;
  }
};

TEST_F(refuge_plan_test, puts_all_on_the_device_that_is_left) {
  EXPECT_THAT(plan().choose(half_lost()), Optional(Each(0U)));
}

TEST_F(refuge_plan_test, has_no_answer_without_room_for_whole_contexts) {
  devices[0]->set_budget_bytes(t.engine->loaded_model().weight_bytes());
  EXPECT_EQ(plan().choose(half_lost()), std::nullopt);
}

TEST_F(refuge_plan_test, says_what_became_of_it) {
  engine::refuge_report r;
  r.lost = {1};
  r.parts = {{0, 0}, {2, 0}};
  r.sessions_rebuilt = 1;
  EXPECT_EQ(
      plan().sentence(r),
      "device vulkan:card is lost: 2 parts are on cpu now, KV of 1 session is computed again");
  r.sessions_ended = 3;
  EXPECT_EQ(plan().sentence(r),
            "device vulkan:card is lost: 2 parts are on cpu now; 3 sessions had to end for want of "
            "room");
  r.failure = error{error_code::no_room, "head fits nowhere", "cpu"};
  EXPECT_THAT(plan().sentence(r),
              testing::HasSubstr("requests are refused: cpu: head fits nowhere"));
}

}  // namespace
}  // namespace terrane::daemon
