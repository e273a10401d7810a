// Parts are promoted into room once the daemon runs, what that was predicted to do is set beside
// what it did, and a user over a quota is refused: policies and engine together.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/service/service.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

using testing::Each;
using testing::HasSubstr;

// Memory of both devices: what the drivers of real ones tell.
struct memory final : telemetry_source {
  explicit memory(engine::inference_engine& of) : engine(of) {}
  std::string_view name() const override { return "memory"; }
  void sample(policies::snapshot& s) override {
    for (std::size_t d = 0; d < s.devices.size(); d++) {
      const auto ours = static_cast<double>(engine.devices()[d]->used_bytes());
      s.devices[d].vram_total = {4e9, s.time_ms};
      s.devices[d].vram_used = s.devices[d].vram_ours = {ours, s.time_ms};
      s.devices[d].vram_others = {0, s.time_ms};
    }
  }
  engine::inference_engine& engine;
};

class until_the_end final : public engine::reply_observer {
 public:
  void on_token(const engine::token_event&) override {}
  void on_end(const engine::reply_summary&) override { ended_.set_value(); }
  bool wait() {
    return ended_.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }

 private:
  std::promise<void> ended_;
};

struct promotion_test : testing::Test {
  std::int64_t now_ms = 0;
  config c;
  ipc::event_hub events;
  heard_events heard{events};
  warnings standing{events};
  test_engine t = engine_with_a_card();
  std::unique_ptr<control_loop> loop;
  std::unique_ptr<service> answers;
  const ipc::caller root{0, 1, ipc::access_level::admin};

  // Everything is on the CPU, and the card was timed to be so many times as fast.
  void start(double faster, bool promotes = true, const std::string& policies = "") {
    TearDown();
    answers.reset();
    load_facts load;
    load.promotes = promotes;
    load.devices.assign(2, {std::uint64_t{1} << 20, 1e-4, 0});
    const std::size_t parts = t.engine->loaded_model().parts().size();
    load.kv_most_bytes.assign(parts, 0);
    for (std::uint32_t p = 0; p < parts; p++) {
      load.first_times.push_back({p, 0, 1});
      load.first_times.push_back({p, 1, 1 / faster});
    }
    telemetry_sources sources;
    sources.push_back(std::make_unique<memory>(*t.engine));
    auto set = policies::policy_set::from_sources(
        policies.empty() ? std::vector<policies::policy_source>{}
                         : std::vector<policies::policy_source>{{"p.yaml", policies}});
    ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
    loop = std::make_unique<control_loop>(
        *t.engine, snapshot_builder(*t.engine, std::move(sources), {}, {}, std::move(load)), *set,
        events, [this] { return now_ms; });
    answers = std::make_unique<service>(c, events, standing);
    answers->set_ready(*t.engine, *loop, {{"cpu", 0, 0, 0}, {"vulkan", 0, 0, 0}}, {},
                       engine::find_paths(t.engine->devices()));
  }
  void TearDown() override {
    if (answers) answers->finish();
  }

  void ticks(int count) {
    for (int i = 0; i < count; i++) {
      now_ms += 1000;
      loop->tick();
    }
  }
  // Until the moves that were decided have ended; the clock stands meanwhile.
  void end_moves() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!t.engine->status().moves.empty() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ticks(1);
  }
  std::vector<std::uint32_t> places() const {
    std::vector<std::uint32_t> on;
    for (const engine::part_status& p : t.engine->status().parts) on.push_back(p.device);
    return on;
  }
  void reply(std::uint32_t tokens) {
    engine::generate_request r;
    r.prompt = {1, 2, 3};
    r.max_tokens = tokens;
    auto observer = std::make_shared<until_the_end>();
    ASSERT_TRUE(t.engine->generate(r, observer));
    EXPECT_TRUE(observer->wait());
  }
  ipc::decision_info explained(std::int64_t id) {
    return answered_with<ipc::explain_reply>(
               [&](const auto& to) { answers->explain(root, id, to); })
        .decision;
  }
};

TEST_F(promotion_test, parts_go_to_the_faster_device_and_explain_says_what_came_of_it) {
  start(5);
  ticks(5);
  EXPECT_THAT(places(), Each(0U));
  ticks(8);
  end_moves();
  EXPECT_THAT(places(), Each(1U));
  const std::vector<ipc::event> told = heard.of(ipc::event_kind::decision);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].policy, "promotion");
  reply(40);
  ticks(2);
  const ipc::decision_info d = explained(told[0].decision.value_or(0));
  EXPECT_THAT(d.text, HasSubstr("there is room, and a token is predicted to take"));
  ASSERT_FALSE(d.actions.empty());
  std::int64_t planned = 0, moved = 0;
  for (const ipc::action_info& a : d.actions) {
    EXPECT_EQ(a.outcome, ipc::action_outcome::done);
    planned += a.bytes;
    moved += a.moved_bytes.value_or(0);
    EXPECT_GT(a.took_ms.value_or(0), 0);
    // Five times as fast as what stood for the CPU, says the prediction; the card is one, in truth.
    EXPECT_NEAR(a.predicted_token_ms.value_or(0), 0.2 * static_cast<double>(places().size()), 1e-6);
    EXPECT_GT(a.token_ms.value_or(0), 0);
  }
  EXPECT_GT(moved, planned / 2);
  EXPECT_LT(moved, planned * 2);
  const auto status =
      answered_with<ipc::status_reply>([&](const auto& to) { answers->status(root, to); });
  ASSERT_EQ(status.predictions.size(), 2U);  // no link had been measured: no time was predicted
  EXPECT_EQ(status.predictions[0].of, ipc::prediction_of::bytes);
  EXPECT_EQ(status.predictions[0].moves, 1);
  EXPECT_NEAR(status.predictions[0].median_ratio,
              static_cast<double>(moved) / static_cast<double>(planned), 0.01);
  EXPECT_EQ(status.predictions[1].of, ipc::prediction_of::token_time);
}

TEST_F(promotion_test, what_a_person_moves_stays_where_they_put_it) {
  start(5);
  ticks(13);
  end_moves();
  ASSERT_THAT(places(), Each(1U));
  EXPECT_FALSE(answered([&](const ipc::varlink::reply& to) {
                 answers->move(root, {{"head"}, "cpu", std::nullopt}, ipc::move_stream(to));
               }).error);
  ticks(900);
  end_moves();
  const std::vector<std::uint32_t> on = places();
  EXPECT_EQ(std::ranges::count(on, 0U), 1);
  EXPECT_EQ(on[*t.engine->loaded_model().find_part("head")], 0U);
}

TEST_F(promotion_test, a_slower_device_is_left_out_and_why_says_who_looks) {
  start(0.5);
  ticks(15);
  EXPECT_THAT(places(), Each(0U));
  const std::vector<ipc::event> told = heard.of(ipc::event_kind::declined);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0].message, HasSubstr("vulkan:card is left out: it is slower than cpu"));
  ticks(300);
  EXPECT_TRUE(heard.of(ipc::event_kind::declined).empty());
  const auto why =
      answered_with<ipc::why_reply>([&](const auto& to) { answers->why(root, "head", to); });
  EXPECT_THAT(why.text, HasSubstr("Policy 'promotion' for host: "));
  const auto list = answered_with<ipc::policy_list_reply>(
      [&](const auto& to) { answers->policy_list(root, to); });
  ASSERT_EQ(list.policies.size(), 1U);
  EXPECT_EQ(list.policies[0].name, "promotion");
  EXPECT_EQ(list.policies[0].source, "built in");
  EXPECT_TRUE(list.policies[0].enabled);
}

TEST_F(promotion_test, off_by_configuration_by_order_and_while_a_device_yields) {
  start(5, false);
  ticks(30);
  EXPECT_THAT(places(), Each(0U));
  start(5);
  loop->standing().switch_policy("promotion", false);
  ticks(30);
  EXPECT_THAT(places(), Each(0U));
  start(5);
  loop->standing().resume({}, {{"vulkan:card", now_ms, now_ms + 60'000, "user 1000"}});
  ticks(30);
  EXPECT_THAT(places(), Each(0U));
  ticks(90);  // it is over
  end_moves();
  EXPECT_THAT(places(), Each(1U));
}

const std::string quota =
    "apiVersion: terrane/v1\npolicies:\n  - name: share\n    for_each: tenant\n"
    "    quota: {bytes: 200KiB}\n"
    "    enter: {metric: tenant.sessions, above: 9}\n"
    "    leave: {metric: tenant.sessions, below: 5}\n"
    "    do: {spill: kv, to: cpu}\n";

TEST_F(promotion_test, who_is_over_a_quota_is_refused_with_the_reason_until_a_session_ends) {
  start(5, false, quota);
  const auto ask = [&] {
    ipc::generate_request r;
    r.prompt = "Once";
    r.max_tokens = 2;
    r.keep = true;
    return answered([&](const ipc::varlink::reply& to) {
      answers->generate(root, r, ipc::generate_stream(to));
    });
  };
  EXPECT_FALSE(ask().error);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto is_busy = [&] {
    const auto s = t.engine->status().sessions;
    return s.empty() || s[0].state != engine::session_state::idle;
  };
  while (is_busy() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  // What came since the loop looked last counts as well: nobody slips in between two looks.
  const ipc::varlink::response refused = ask();
  ASSERT_EQ(refused.error, "io.terrane.Control.QuotaExceeded");
  EXPECT_EQ(refused.parameters.at("policy"), "share");
  EXPECT_EQ(refused.parameters.at("quota_bytes"), 200 * 1024);
  EXPECT_EQ(refused.parameters.at("held_bytes"), 144 * 1024);
  EXPECT_THAT(std::string(refused.parameters.at("message").as_string()),
              HasSubstr("root holds 144 KiB of KV cache in all, this request would reserve 144 KiB "
                        "for its prompt and the longest reply it asks for, and policy 'share' "
                        "(p.yaml:3:5) allows 200 KiB; "
                        "end a session (terranectl sessions, terranectl close NUMBER)"));
  const ipc::caller other{1000, 2, ipc::access_level::operate};
  EXPECT_FALSE(answered([&](const ipc::varlink::reply& to) {
                 ipc::generate_request r;
                 r.prompt = "Once";
                 r.max_tokens = 1;
                 answers->generate(other, r, ipc::generate_stream(to));
               }).error);
  ASSERT_TRUE(t.engine->close(t.engine->status().sessions[0].id));
  ticks(1);
  EXPECT_FALSE(ask().error);
}

}  // namespace
}  // namespace terrane::daemon
