// What the planner is asked at load: what devices share is counted once.
#include "daemon/placement/load_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

struct load_plan_test : testing::Test {
  std::unique_ptr<const engine::model> model;
  engine::engine_options options;

  void SetUp() override {
    auto opened = engine::model::open(test::tiny_model("tiny", "Q4_1"));
    ASSERT_TRUE(opened);
    model = std::move(*opened);
    options.context_tokens = 64;
  }

  static device_facts facts(const std::string& name, double seconds) {
    device_facts f;
    f.name = name;
    f.budget_bytes = 64 * mib;
    f.scratch_bytes = mib;
    f.timing = {seconds, 1e-6, mib, 1e9};
    return f;
  }
};

TEST_F(load_plan_test, two_drivers_of_a_card_share_it) {
  std::vector<device_facts> all = {facts("cpu", 1e-3), facts("cuda:a", 1e-5),
                                   facts("vulkan:a", 2e-5)};
  all[1].card = all[2].card = "a";
  all[1].card_bytes = all[2].card_bytes = 65 * mib;
  const auto asked = make_request(*model, all, options, 0);
  ASSERT_EQ(asked.pools.size(), 1U);
  EXPECT_THAT(asked.pools[0].devices, ElementsAre(1, 2));
  EXPECT_EQ(asked.pools[0].budget_bytes, 65 * mib);
  const result<load_plan> planned = plan_load(*model, all, options, 0);
  ASSERT_TRUE(planned) << to_string(planned.error());
  EXPECT_EQ(planned->answer.predicted.devices[2].parts, 0U);
}

TEST_F(load_plan_test, devices_in_the_hosts_memory_share_it) {
  std::vector<device_facts> all = {facts("cpu", 1e-3), facts("vulkan:software", 2e-3)};
  all[0].host_memory = all[1].host_memory = true;
  result<load_plan> planned = plan_load(*model, all, options, 100 * mib);
  ASSERT_TRUE(planned) << to_string(planned.error());
  const std::uint64_t held = planned->answer.predicted.devices[0].held_bytes();
  // The first may have half of what is needed; with the other there is enough, and not more than
  // the host has.
  all[0].budget_bytes = mib + (held - mib) / 2;
  planned = plan_load(*model, all, options, held + 4 * mib);
  ASSERT_TRUE(planned) << to_string(planned.error());
  EXPECT_GT(planned->answer.predicted.devices[0].parts, 0U);
  EXPECT_GT(planned->answer.predicted.devices[1].parts, 0U);
  planned = plan_load(*model, all, options, held / 2);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, error_code::no_room);
  EXPECT_THAT(planned.error().message,
              HasSubstr("cpu and vulkan:software share the host's memory"));
}

TEST_F(load_plan_test, what_was_timed_stands_for_parts_that_have_not_run) {
  const std::vector<device_facts> all = {facts("cpu", 1e-3), facts("cuda:a", 1e-5)};
  const result<load_plan> planned = plan_load(*model, all, options, 0);
  ASSERT_TRUE(planned);
  const std::vector<first_part_time> times = first_times(*planned);
  ASSERT_EQ(times.size(), 2 * model->parts().size());
  EXPECT_GT(times[0].ms_per_token, 0);
  EXPECT_NEAR(times[0].ms_per_token, 100 * times[1].ms_per_token, 1e-9);
}

}  // namespace
}  // namespace terrane::daemon
