// Starts with devices that cannot be used: each is left out alone, by name and operation.
#include "daemon/lifetime/engine_start.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/self_test.hpp"
#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A CPU that passes for a card, and may round otherwise.
class card final : public bench::forwarding_device {
 public:
  card(std::unique_ptr<engine::device> inner, const std::string& name, bool rounds_otherwise)
      : forwarding_device(std::move(inner)), rounds_otherwise_(rounds_otherwise) {
    info_.name = name;
    info_.kind = engine::device_kind::vulkan;
  }
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override {
    result<void> ok = forwarding_device::read(from, offset, to);
    if (rounds_otherwise_ && !to.empty()) to[0] ^= std::byte{1};
    return ok;
  }

 private:
  bool rounds_otherwise_;
};

struct engine_start_test : testing::Test {
  config c;
  std::vector<std::string> warnings;

  void SetUp() override {
    c.model_file = test::tiny_model("tiny", "Q4_1");
    c.context_tokens = 64;
  }

  void list(std::vector<std::string> names) {
    for (std::string& n : names) c.devices.push_back({std::move(n), 1, 0, 0});
  }

  // "vulkan:off" does not open, "vulkan:odd" fails the self-test, others are good.
  static result<std::unique_ptr<engine::device>> open(const std::string& name,
                                                      const engine::device_settings& settings) {
    if (name == "cpu") return engine::open_device(name, settings);
    if (name == "vulkan:off") return fail(error_code::device_fault, "it does not answer", name);
    auto cpu = engine::open_device("cpu", settings);
    if (!cpu) return cpu;
    const bool odd = name == "vulkan" || name == "vulkan:odd";
    auto made = std::make_unique<card>(std::move(*cpu), odd ? "vulkan:odd" : name, odd);
    result<void> passed = engine::self_test(*made, settings.cache_folder);
    if (!passed) return tl::unexpected<error>(passed.error());
    return made;
  }

  result<started_engine> start() {
    start_settings s;
    s.cache_folder = test::test_folder() / "cache";
    s.open_device = open;
    s.warn = [this](const std::string& w) { warnings.push_back(w); };
    return start_engine(c, s);
  }

  static const engine::device_candidate* refused(const started_engine& e, const std::string& name) {
    for (const engine::device_candidate& r : e.refused)
      if (r.info.name == name) return &r;
    return nullptr;
  }
};

TEST_F(engine_start_test, a_device_that_fails_the_self_test_is_left_out_alone) {
  list({"vulkan", "cpu"});
  c.devices[1].reserve_bytes = 77;
  auto e = start();
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  ASSERT_EQ(e->engine->devices().size(), 1U);
  EXPECT_EQ(e->engine->devices()[0]->info().name, "cpu");
  ASSERT_EQ(e->devices.size(), 1U);
  EXPECT_EQ(e->devices[0].reserve_bytes, 77U);
  const engine::device_candidate* odd = refused(*e, "vulkan:odd");
  ASSERT_NE(odd, nullptr);
  EXPECT_EQ(odd->info.kind, engine::device_kind::vulkan);
  EXPECT_THAT(odd->refused, HasSubstr("operation 1 of the numeric contract (multiply)"));
  EXPECT_THAT(warnings,
              ElementsAre(testing::AllOf(HasSubstr("vulkan:odd"), HasSubstr("multiply"))));
}

TEST_F(engine_start_test, a_device_that_does_not_open_is_left_out_alone) {
  list({"cpu", "vulkan:off", "vulkan:good"});
  auto e = start();
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  EXPECT_EQ(e->engine->devices().size(), 2U);
  ASSERT_NE(refused(*e, "vulkan:off"), nullptr);
  EXPECT_EQ(refused(*e, "vulkan:off")->refused, "it does not answer");
  EXPECT_THAT(warnings, ElementsAre("device vulkan:off is left out: it does not answer"));
}

TEST_F(engine_start_test, start_on_means_that_device_and_no_other) {
  list({"cpu", "vulkan:odd"});
  for (const char* name : {"vulkan:odd", "cuda"}) {
    c.start_on = name;
    auto e = start();
    ASSERT_FALSE(e.has_value());
    EXPECT_THAT(to_string(e.error()), HasSubstr("start_on: '" + c.start_on + "'"));
  }
  c.start_on = "vulkan:odd";
  EXPECT_THAT(to_string(start().error()), HasSubstr("multiply"));
  c.start_on = "cpu";
  EXPECT_TRUE(start().has_value());
}

TEST_F(engine_start_test, a_kind_to_start_on_is_the_first_of_that_kind) {
  list({"cpu", "vulkan:good"});
  c.start_on = "vulkan";
  auto e = start();
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  EXPECT_EQ(e->engine->status().parts.front().device, 1U);
}

TEST_F(engine_start_test, automatic_placement_uses_one_device_where_it_is_enough) {
  list({"cpu", "vulkan:good"});
  c.start_on = "automatic";
  auto e = start();
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  ASSERT_TRUE(e->planned.has_value());
  EXPECT_EQ(e->planned->answer.predicted.crossings, 0U);
  EXPECT_GT(e->planned->answer.predicted.token_s, 0);
  const auto& placed = e->planned->answer.where;
  const engine::engine_status status = e->engine->status();
  ASSERT_EQ(status.parts.size(), placed.size());
  for (std::size_t p = 0; p < placed.size(); p++) EXPECT_EQ(status.parts[p].device, placed[p]);
  // The other one is left out, and the reason is told.
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("automatic placement: ")));
}

TEST_F(engine_start_test, automatic_placement_fills_a_rank_before_the_next) {
  list({"cpu", "vulkan:good"});
  c.start_on = "automatic";
  c.devices[1].rank = 1;
  auto whole = start();
  ASSERT_TRUE(whole.has_value()) << to_string(whole.error());
  const auto& alone = whole->planned->answer.predicted.devices[0];
  ASSERT_EQ(whole->planned->answer.predicted.devices[1].parts, 0U);
  // Not all of it fits on the first any more.
  c.devices[0].budget_bytes = alone.fee_bytes + (alone.weight_bytes + alone.kv_bytes) * 3 / 4;
  auto split = start();
  ASSERT_TRUE(split.has_value()) << to_string(split.error());
  EXPECT_GT(split->planned->answer.predicted.devices[0].parts, 0U);
  EXPECT_GT(split->planned->answer.predicted.devices[1].parts, 0U);
  EXPECT_LE(split->engine->devices()[0]->used_bytes(), c.devices[0].budget_bytes);
}

TEST_F(engine_start_test, automatic_placement_that_does_not_fit_names_what_blocks) {
  list({"cpu"});
  c.start_on = "automatic";
  auto whole = start();
  ASSERT_TRUE(whole.has_value()) << to_string(whole.error());
  const auto& alone = whole->planned->answer.predicted.devices[0];
  c.devices[0].budget_bytes = alone.fee_bytes + alone.weight_bytes + alone.kv_bytes - 1000;
  auto none = start();
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, error_code::no_room);
  EXPECT_THAT(none.error().message, HasSubstr("no automatic placement: the model needs"));
}

TEST_F(engine_start_test, fit_answers_without_a_start) {
  list({"cpu"});
  start_settings s;
  s.cache_folder = test::test_folder() / "cache";
  s.open_device = open;
  const auto text = describe_fit(c, s, false);
  ASSERT_TRUE(text.has_value()) << to_string(text.error());
  EXPECT_THAT(*text, HasSubstr("fits with 4 sessions of 64 tokens each"));
  EXPECT_THAT(*text, HasSubstr("cpu: holds"));
  const auto json = describe_fit(c, s, true);
  ASSERT_TRUE(json.has_value());
  EXPECT_THAT(*json, HasSubstr("\"fits\":true"));
}

TEST_F(engine_start_test, no_device_left_is_told_with_each_reason) {
  list({"vulkan:off", "vulkan:odd"});
  auto e = start();
  ASSERT_FALSE(e.has_value());
  EXPECT_THAT(to_string(e.error()), HasSubstr("devices: none can be used: vulkan:off: it does not "
                                              "answer; vulkan:odd: operation 1"));
}

TEST_F(engine_start_test, a_device_under_two_names_is_used_once) {
  list({"vulkan:good", "cpu", "vulkan:good"});
  auto e = start();
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  EXPECT_EQ(e->engine->devices().size(), 2U);
  EXPECT_EQ(refused(*e, "vulkan:good"), nullptr);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("twice")));
}

}  // namespace
}  // namespace terrane::daemon
