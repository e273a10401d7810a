// Standing orders: a device is given back and returns, policies are switched off.
#include "daemon/loop/orders.hpp"

#include <array>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/service/service.hpp"
#include "tests/bench/bench_model.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const one_policy =
    "apiVersion: terrane/v1\npolicies:\n"
    "  - name: hot\n    for_each: gpu\n    enter: {metric: temp_c, above: 85C}\n"
    "    leave: {metric: temp_c, below: 70C}\n    do: {move: layers, to: cpu}\n";

struct orders_test : testing::Test {
  config c;
  ipc::event_hub events;
  warnings standing{events};
  test_engine t = engine_with_a_card();
  std::atomic<std::int64_t> now_ms{1000};
  control_loop loop = make();
  service answers{c, events, standing};
  const ipc::caller root{0, 1, ipc::access_level::admin};

  control_loop make() {
    telemetry_sources sources;
    sources.push_back(make_device_memory_source(t.engine->devices(), {0, 0}, 1000));
    return control_loop(*t.engine, snapshot_builder(*t.engine, std::move(sources), {}),
                        *policies::policy_set::from_sources({{"t.yaml", one_policy}}), events,
                        [this] { return now_ms.load(); });
  }
  void SetUp() override {
    answers.set_ready(*t.engine, loop, {{"cpu", 0, 0, 0}, {"vulkan", 0, 0, 0}}, {}, {});
    ASSERT_EQ(move_to("vulkan:card").error.value_or(""), "");
  }
  void TearDown() override { answers.finish(); }
  ipc::varlink::response move_to(const std::string& device) {
    return answered([&](const ipc::varlink::reply& to) {
      answers.move(root, {{"head", "layer.0.attn"}, device, std::nullopt}, ipc::move_stream(to));
    });
  }

  // Asks, and lets the loop tick until there is an answer.
  ipc::varlink::response yield(const ipc::yield_request& request) {
    auto answer = std::async(std::launch::async, [&] {
      return answered([&](const ipc::varlink::reply& to) {
        answers.yield(root, request, ipc::yield_stream(to));
      });
    });
    while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) tick();
    return answer.get();
  }
  void tick() {
    now_ms += 1000;
    loop.tick();
  }
  std::size_t on_card() {
    std::size_t n = 0;
    for (const engine::part_status& p : t.engine->status().parts) n += p.device == 1 ? 1 : 0;
    return n;
  }
};

TEST_F(orders_test, a_device_yields_and_what_left_returns) {
  EXPECT_EQ(on_card(), 2U);
  const ipc::varlink::response r = yield({});
  EXPECT_EQ(r.error.value_or(""), "");
  EXPECT_EQ(r.parameters.at("device"), "vulkan:card");
  EXPECT_EQ(r.parameters.at("state"), "free");
  EXPECT_FALSE(r.parameters.contains("until_unix_ms"));
  EXPECT_GT(r.parameters.at("freed_bytes").as_int64(), 0);
  EXPECT_EQ(on_card(), 0U);
  EXPECT_EQ(t.card->used_bytes(), 0U);  // nor what steps need there
  const auto ended =
      answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  ASSERT_EQ(ended.ended.size(), 1U);
  EXPECT_EQ(ended.ended[0].device, "vulkan:card");
  EXPECT_EQ(ended.ended[0].away, 2);
  for (int i = 0; i < 10'000 && on_card() < 2; ++i) tick();
  EXPECT_EQ(on_card(), 2U);
}

TEST_F(orders_test, the_end_of_a_yield_says_when_nothing_had_left) {
  EXPECT_EQ(move_to("cpu").error.value_or(""), "");
  EXPECT_EQ(yield({"vulkan", std::nullopt}).error.value_or(""), "");
  const auto ended =
      answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  ASSERT_EQ(ended.ended.size(), 1U);
  EXPECT_EQ(ended.ended[0].away, 0);
}

TEST_F(orders_test, nobody_moves_anything_to_a_device_that_yields) {
  EXPECT_EQ(yield({"vulkan", 3600.0}).error.value_or(""), "");
  const ipc::varlink::response refused = move_to("vulkan");
  EXPECT_EQ(refused.error, "io.terrane.Control.DeviceYields");
  EXPECT_EQ(refused.parameters.at("device"), "vulkan:card");
  EXPECT_EQ(refused.parameters.at("by"), "user 0");
  EXPECT_TRUE(refused.parameters.at("until_unix_ms").is_int64());
  EXPECT_THAT(std::string(refused.parameters.at("message").as_string()),
              testing::MatchesRegex("vulkan:card yields for another .* min: user 0 asked for its "
                                    "memory, so nothing goes there; terranectl yield --end "
                                    "vulkan:card ends that"));
  EXPECT_EQ(on_card(), 0U);
  EXPECT_EQ(move_to("cpu").error.value_or(""), "");
  now_ms += 3'600'000;  // it is over, whether the loop has looked or not
  EXPECT_EQ(move_to("vulkan").error.value_or(""), "");
}

// A session's KV comes back beside its parts; that of another session is not asked about.
TEST_F(orders_test, kv_is_not_sent_to_a_device_that_yields) {
  std::array<engine::session_id, 2> sessions{};
  for (engine::session_id& id : sessions) {
    engine::generate_request r;
    r.keep = true;
    r.prompt.assign(130, 1);
    r.max_tokens = 1;
    const auto reply = std::make_shared<bench::recorder>();
    const result<engine::session_id> accepted = t.engine->generate(std::move(r), reply);
    ASSERT_TRUE(accepted.has_value());
    id = *accepted;
    reply->wait();
  }
  const auto spill = [&](engine::session_id id, const std::string& device) {
    return answered([&](const ipc::varlink::reply& to) {
      answers.spill_kv(root, {static_cast<std::int64_t>(id), device, std::nullopt, std::nullopt},
                       ipc::answer<ipc::kv_reply>(to));
    });
  };
  const auto fetch = [&](engine::session_id id) {
    return answered([&](const ipc::varlink::reply& to) {
      answers.fetch_kv(root, {static_cast<std::int64_t>(id), std::nullopt},
                       ipc::answer<ipc::kv_reply>(to));
    });
  };
  EXPECT_EQ(spill(sessions[0], "cpu").error.value_or(""), "");
  loop.standing().yield({.device = "vulkan:card", .by = "user 0"}, *t.engine->devices()[1]);
  EXPECT_EQ(fetch(sessions[0]).error, "io.terrane.Control.DeviceYields");
  EXPECT_EQ(fetch(sessions[1]).error.value_or(""), "");
  EXPECT_EQ(spill(sessions[1], "vulkan").error, "io.terrane.Control.DeviceYields");
  EXPECT_EQ(spill(sessions[1], "cpu").error.value_or(""), "");
}

TEST_F(orders_test, orders_stand_in_every_list) {
  EXPECT_EQ(yield({"vulkan", std::nullopt}).error.value_or(""), "");
  EXPECT_FALSE(answered_with<ipc::policy_switch_reply>([&](const auto& to) {
                 answers.switch_policy(root, {"promotion", false}, to);
               }).enabled);
  const auto status =
      answered_with<ipc::status_reply>([&](const auto& to) { answers.status(root, to); });
  EXPECT_THAT(status.switched_off, ElementsAre("promotion"));
  const auto devices =
      answered_with<ipc::devices_reply>([&](const auto& to) { answers.devices(root, to); });
  const auto list =
      answered_with<ipc::policy_list_reply>([&](const auto& to) { answers.policy_list(root, to); });
  for (const std::vector<ipc::yield_info>& yields : {status.yields, devices.yields, list.yields}) {
    ASSERT_EQ(yields.size(), 1U);
    EXPECT_EQ(yields[0].device, "vulkan:card");
    EXPECT_EQ(yields[0].by, "user 0");
    EXPECT_EQ(yields[0].until_unix_ms, std::nullopt);
  }
  ASSERT_EQ(list.policies.size(), 3U);
  EXPECT_EQ(list.policies[0].name, "yield");
  ASSERT_EQ(list.policies[0].objects.size(), 1U);
  EXPECT_EQ(list.policies[0].objects[0].object, "vulkan:card");
  EXPECT_EQ(list.policies[2].name, "promotion");
  EXPECT_FALSE(list.policies[2].enabled);
}

// What would be done is asked of the orders as they are, not as the loop saw them last.
TEST_F(orders_test, a_dry_run_goes_by_the_orders_of_its_moment) {
  EXPECT_EQ(yield({"vulkan", std::nullopt}).error.value_or(""), "");
  tick();
  const auto actions = [&] {
    const auto plan =
        answered_with<ipc::plan_reply>([&](const auto& to) { answers.plan(root, {}, to); });
    return plan.decisions.empty() ? 0U : plan.decisions[0].actions.size();
  };
  EXPECT_EQ(actions(), 0U);
  answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  EXPECT_EQ(actions(), 2U);
  EXPECT_TRUE(loop.this_moment().seen.yields.empty());
}

TEST_F(orders_test, a_yield_that_is_ended_meanwhile_is_told_as_that) {
  auto answer = std::async(std::launch::async, [&] {
    return answered(
        [&](const ipc::varlink::reply& to) { answers.yield(root, {}, ipc::yield_stream(to)); });
  });
  while (loop.standing().yields(now_ms).empty()) std::this_thread::yield();
  answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  loop.standing().look(now_ms);
  const ipc::varlink::response ended = answer.get();
  EXPECT_EQ(ended.error, "io.terrane.Control.Cancelled");
  EXPECT_THAT(std::string(ended.parameters.at("message").as_string()),
              testing::MatchesRegex("vulkan:card no longer yields: it was ended by someone. .* MiB "
                                    "are still there, and what has left goes home"));
}

TEST_F(orders_test, a_yield_whose_time_is_over_first_says_so) {
  auto answer = std::async(std::launch::async, [&] {
    return answered([&](const ipc::varlink::reply& to) {
      answers.yield(root, {"vulkan", 5.0}, ipc::yield_stream(to));
    });
  });
  while (loop.standing().yields(now_ms).empty()) std::this_thread::yield();
  now_ms += 5000;
  policies::snapshot seen;
  loop.standing().put_into(seen, now_ms);
  while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    loop.standing().look(now_ms);
  const ipc::varlink::response over = answer.get();
  EXPECT_EQ(over.error, "io.terrane.Control.Cancelled");
  EXPECT_THAT(std::string(over.parameters.at("message").as_string()),
              HasSubstr("no longer yields: the time that was asked for is over; ask for a longer "
                        "one. "));
}

TEST_F(orders_test, what_a_person_puts_where_a_policy_has_put_it_stays) {
  EXPECT_EQ(yield({"vulkan", std::nullopt}).error.value_or(""), "");
  const auto claimed = answered([&](const ipc::varlink::reply& to) {
    answers.move(root, {{"head"}, "cpu", std::nullopt}, ipc::move_stream(to));
  });
  EXPECT_EQ(claimed.parameters.at("bytes_total"), 0);
  EXPECT_EQ(claimed.parameters.at("notes").at(0).as_string(),
            "policy 'yield' had brought head there for a while; now it does not bring it back to "
            "vulkan:card");
  tick();
  answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  for (int i = 0; i < 10'000 && on_card() < 1; ++i) tick();
  for (int i = 0; i < 20; ++i) tick();
  EXPECT_EQ(on_card(), 1U);  // the other one
}

TEST_F(orders_test, a_yield_ends_by_itself) {
  EXPECT_EQ(yield({"vulkan", 3600.0}).error.value_or(""), "");
  EXPECT_EQ(loop.this_moment().seen.yields.size(), 1U);
  now_ms += 3'600'000;
  EXPECT_TRUE(loop.this_moment().seen.yields.empty());  // the loop has not looked yet
  for (int i = 0; i < 10'000 && on_card() < 2; ++i) tick();
  EXPECT_EQ(on_card(), 2U);
}

TEST_F(orders_test, one_that_could_not_be_written_down_says_so) {
  state_file full("/nowhere/policies.state",
                  [](const auto&, const auto&) { return std::string("state: the disk is full"); });
  loop.keep(full);
  const auto off = answered_with<ipc::policy_switch_reply>([&](const auto& to) {
    answers.switch_policy(root, {"hot", false}, to);
  });
  EXPECT_EQ(off.not_kept, "state: the disk is full");
  EXPECT_FALSE(off.enabled);
  EXPECT_TRUE(loop.standing().is_disabled("hot"));  // it holds
  const ipc::varlink::response yielded = yield({});
  EXPECT_EQ(yielded.error.value_or(""), "");
  EXPECT_EQ(yielded.parameters.at("not_kept"), "state: the disk is full");
  const auto ended =
      answered_with<ipc::end_yield_reply>([&](const auto& to) { answers.end_yield(root, {}, to); });
  EXPECT_EQ(ended.not_kept, "state: the disk is full");
}

TEST_F(orders_test, what_cannot_be_named_is_refused) {
  EXPECT_EQ(yield({"cuda", std::nullopt}).error, "io.terrane.Control.UnknownDevice");
}

TEST_F(orders_test, a_policy_is_switched_off_and_on) {
  const auto is_on = [&] {
    return answered_with<ipc::policy_list_reply>(
               [&](const auto& to) { answers.policy_list(root, to); })
        .policies.at(0)
        .enabled;
  };
  EXPECT_TRUE(is_on());
  const auto turn = [&](const std::string& name, bool on) {
    return answered([&](const ipc::varlink::reply& to) {
      answers.switch_policy(root, {name, on}, ipc::answer<ipc::policy_switch_reply>(to));
    });
  };
  EXPECT_EQ(turn("hot", false).error.value_or(""), "");
  EXPECT_FALSE(is_on());
  tick();
  loop.look([](const auto&, const policies::snapshot& s, const auto&, const auto&) {
    EXPECT_THAT(s.disabled, ElementsAre("hot"));
    return 0;
  });
  EXPECT_EQ(turn("hot", true).error.value_or(""), "");
  EXPECT_TRUE(is_on());
  EXPECT_EQ(turn("hott", false).error, "io.terrane.Control.UnknownPolicy");
}

}  // namespace
}  // namespace terrane::daemon
