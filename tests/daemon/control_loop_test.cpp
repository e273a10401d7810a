// What the control loop tells of its own accord: once, not each period.
#include "daemon/loop/control_loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/bench_model.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct troubled final : telemetry_source {
  explicit troubled(const std::string& of) : trouble_now(of) {}
  std::string_view name() const override { return "thermometer"; }
  void sample(policies::snapshot& s) override {
    for (policies::device_state& d : s.devices) {
      d.vram_total = {1 << 30, s.time_ms};
      d.vram_used = {0, s.time_ms};
    }
  }
  std::string trouble() const override { return trouble_now; }
  const std::string& trouble_now;
};

struct control_loop_test : testing::Test {
  std::int64_t now_ms = 0;
  std::string trouble;
  ipc::event_hub events;
  heard_events heard{events};
  test_engine t = engine_with_a_card();
  control_loop loop = make();

  control_loop make() {
    telemetry_sources sources;
    sources.push_back(std::make_unique<troubled>(trouble));
    auto none = policies::policy_set::from_sources({});
    EXPECT_TRUE(none.has_value());
    return control_loop(*t.engine, snapshot_builder(*t.engine, std::move(sources), {}), *none,
                        events, [this] { return now_ms; });
  }
  void tick() {
    now_ms += 1000;
    loop.tick();
  }
};

TEST_F(control_loop_test, a_lost_device_is_told_once_and_stays_in_the_troubles) {
  tick();
  EXPECT_THAT(heard.of(ipc::event_kind::device_lost), IsEmpty());
  t.card->lose();
  tick();
  tick();
  const std::vector<ipc::event> lost = heard.of(ipc::event_kind::device_lost);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].from, "vulkan:card");
  EXPECT_EQ(lost[0].message, "device vulkan:card is lost: the driver says that it is gone");
  EXPECT_THAT(loop.troubles(), ElementsAre(lost[0].message));
}

TEST_F(control_loop_test, what_was_on_a_lost_device_is_put_elsewhere_though_nobody_asks) {
  const engine::part_index head =
      static_cast<engine::part_index>(t.engine->status().parts.size()) - 1;
  engine::move_request there;
  there.parts.push_back({head, 1});
  ASSERT_EQ(bench::move_and_wait(*t.engine, there).state, engine::move_state::committed);
  t.card->lose();
  tick();
  while (t.engine->status().parts[head].device != 0) std::this_thread::yield();
  EXPECT_EQ(t.engine->status().parts[head].by, "engine");
}

TEST_F(control_loop_test, a_sources_trouble_is_told_when_it_comes_and_again_only_after_a_minute) {
  tick();
  EXPECT_THAT(heard.of(ipc::event_kind::warning), IsEmpty());
  trouble = "the sensor hums";
  tick();
  tick();
  std::vector<ipc::event> told = heard.of(ipc::event_kind::warning);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].message, "thermometer: the sensor hums");
  EXPECT_THAT(loop.troubles(), ElementsAre(told[0].message));

  trouble.clear();
  tick();
  EXPECT_THAT(loop.troubles(), IsEmpty());
  trouble = "the sensor hums";
  tick();
  EXPECT_THAT(heard.of(ipc::event_kind::warning), IsEmpty());
  trouble.clear();
  now_ms += 60'000;
  tick();
  trouble = "the sensor hums";
  tick();
  EXPECT_EQ(heard.of(ipc::event_kind::warning).size(), 1U);
}

// Beside a running reply, most of whose pages are reserved: what is planned is what is full, and
// that is what travels.
TEST_F(control_loop_test, what_a_spill_copies_is_what_was_foreseen) {
  auto set = policies::policy_set::from_sources(
      {{"p.yaml",
        "apiVersion: terrane/v1\npolicies:\n  - name: away\n    for_each: session\n"
        "    enter: {metric: context.tokens, above: 10}\n"
        "    leave: {metric: context.tokens, below: 5}\n"
        "    do: {spill: kv, to: \"vulkan:card\"}\n"}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  loop.use(*set);
  engine::generate_request r;
  r.prompt.assign(100, 7);
  r.max_tokens = 156;
  r.keep = true;
  const auto reply = std::make_shared<bench::recorder>();
  const result<engine::session_id> id = t.engine->generate(std::move(r), reply);
  ASSERT_TRUE(id.has_value());
  reply->wait_for(1);
  ASSERT_TRUE(t.engine->stop(*id).has_value());
  reply->wait();
  const auto foreseen = [&] { return loop.forecasts().quality_of(policies::forecast::bytes); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!foreseen() && std::chrono::steady_clock::now() < deadline) {
    tick();
    std::this_thread::yield();
  }
  ASSERT_TRUE(foreseen().has_value());
  EXPECT_EQ(foreseen()->median_ratio, 1);
  // The page that was being written is where it was, and there is no more to plan.
  const engine::session_status now = t.engine->status().sessions.at(0);
  EXPECT_GT(now.kv.at(0).open_bytes, 0U);
  EXPECT_EQ(now.kv.at(0).open_bytes, now.kv.at(0).bytes);
  for (int i = 0; i < 100; i++) tick();
  loop.look([](const auto&, const auto&, const policies::pipeline_state& state,
               const policies::journal& past) {
    EXPECT_EQ(state.next_move, 2U);  // the first move's number is 1
    // That there is no more is told once.
    const auto told = past.recent(100);
    EXPECT_EQ(told.size(), 2U);
    EXPECT_TRUE(told.front()->moves.empty());
    return 0;
  });
}

}  // namespace
}  // namespace terrane::daemon
