// Answers of the service about devices that cannot be used.
#include "daemon/service/service.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/fixture.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct service_test : testing::Test {
  config c;
  ipc::event_hub events;
  warnings standing{events};
  test_engine t = engine_with_a_card();
  control_loop loop{*t.engine, snapshot_builder(*t.engine, {}, {}),
                    *policies::policy_set::from_sources({}), events, [] { return 1000; }};
  service answers{c, events, standing};
  const ipc::caller root{0, 1, ipc::access_level::admin};

  void SetUp() override {
    engine::device_candidate odd;
    odd.info.name = "cuda:odd";
    odd.info.kind = engine::device_kind::cuda;
    odd.refused = "operation 1 of the numeric contract (multiply) gave another hash";
    answers.set_ready(*t.engine, loop, {{"cpu", 0, 0, 55}, {"vulkan", 0, 0, 0}}, {odd},
                      engine::find_paths(t.engine->devices()));
  }
  void TearDown() override { answers.finish(); }

  std::vector<ipc::device_info> devices() {
    return answered_with<ipc::devices_reply>([&](const auto& to) { answers.devices(root, to); })
        .devices;
  }
  ipc::varlink::response move_to(const std::string& device) {
    return answered([&](const ipc::varlink::reply& to) {
      answers.move(root, {{"head"}, device, std::nullopt}, ipc::move_stream(to));
    });
  }
};

TEST_F(service_test, a_refused_device_is_shown_with_its_reason_and_takes_nothing) {
  const std::vector<ipc::device_info> all = devices();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].state, ipc::device_state::ready);
  EXPECT_EQ(all[0].reserve_bytes, 55);
  EXPECT_EQ(all[2].name, "cuda:odd");
  EXPECT_EQ(all[2].state, ipc::device_state::refused);
  EXPECT_THAT(all[2].reason.value_or(""), HasSubstr("multiply"));
  for (const char* name : {"cuda:odd", "cuda"}) {
    const ipc::varlink::response r = move_to(name);
    EXPECT_EQ(r.error, "io.terrane.Control.DeviceUnusable");
    EXPECT_EQ(r.parameters.at("device"), "cuda:odd");
    EXPECT_THAT(std::string(r.parameters.at("message").as_string()), HasSubstr("multiply"));
  }
  EXPECT_EQ(move_to("cuda:other").error, "io.terrane.Control.UnknownDevice");
}

TEST_F(service_test, shows_which_way_bytes_go_between_devices) {
  const std::vector<ipc::device_path> paths =
      answered_with<ipc::devices_reply>([&](const ipc::answer<ipc::devices_reply>& to) {
        answers.devices(root, to);
      }).paths;
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].from, "cpu");
  EXPECT_EQ(paths[0].to, "vulkan:card");
  EXPECT_EQ(paths[0].way, ipc::path_way::memory);  // the card is a CPU in disguise
  EXPECT_EQ(paths[0].reason, std::nullopt);
}

TEST_F(service_test, a_lost_device_is_shown_with_its_reason_and_takes_nothing) {
  t.card->lose();
  const ipc::device_info card = devices()[1];
  EXPECT_EQ(card.state, ipc::device_state::lost);
  EXPECT_EQ(card.reason, "the driver says that it is gone");
  EXPECT_EQ(card.free_bytes, 0);
  const ipc::varlink::response r = move_to("vulkan");
  EXPECT_EQ(r.error, "io.terrane.Control.DeviceUnusable");
  EXPECT_EQ(r.parameters.at("device"), "vulkan:card");
}

TEST_F(service_test, parts_of_a_lost_device_that_fit_nowhere_are_a_failure_with_its_reason) {
  EXPECT_EQ(move_to("vulkan").error.value_or(""), "");
  engine::device& cpu = *t.engine->devices()[0];
  cpu.set_budget_bytes(cpu.used_bytes());
  t.card->lose();
  t.engine->look_for_lost_devices();
  while (!t.engine->status().unplaced) std::this_thread::yield();
  const auto status = [&] {
    return answered_with<ipc::status_reply>([&](const auto& to) { answers.status(root, to); });
  };
  EXPECT_EQ(status().state, ipc::daemon_state::failed);
  EXPECT_THAT(status().reason.value_or(""), HasSubstr("head fits on no other device"));
  cpu.set_budget_bytes(0);
  t.engine->look_for_lost_devices();
  while (t.engine->status().stranded) std::this_thread::yield();
  EXPECT_EQ(status().state, ipc::daemon_state::ready);
}

TEST_F(service_test, kernels_are_timed_only_on_devices_that_can_be_used) {
  const auto tune = [&](const std::string& device) {
    return answered([&](const ipc::varlink::reply& to) {
             answers.tune(root, {device}, ipc::tune_stream(to));
           })
        .error.value_or("");
  };
  EXPECT_EQ(tune("cuda"), "io.terrane.Control.DeviceUnusable");
  EXPECT_EQ(tune("moon"), "io.terrane.Control.UnknownDevice");
  t.card->lose();
  EXPECT_EQ(tune("vulkan"), "io.terrane.Control.DeviceUnusable");
  const auto kernels =
      answered_with<ipc::tuning_reply>([&](const auto& to) { answers.tuning(root, to); });
  EXPECT_TRUE(kernels.kernels.empty());
}

TEST_F(service_test, a_move_to_where_all_is_moves_nothing_and_says_so) {
  heard_events heard(events);
  const auto move = [&](std::vector<std::string> parts, const std::string& device) {
    const ipc::varlink::response r = answered([&](const ipc::varlink::reply& to) {
      answers.move(root, {std::move(parts), device, std::nullopt}, ipc::move_stream(to));
    });
    return ipc::from_json<ipc::move_reply>(r.parameters).value_or(ipc::move_reply{});
  };
  const ipc::move_reply nothing = move({"head", "embedding"}, "cpu");
  EXPECT_EQ(nothing.state, ipc::move_state::committed);
  EXPECT_EQ(nothing.revision, 1);
  EXPECT_EQ(nothing.bytes_total, 0);
  EXPECT_TRUE(heard.of(ipc::event_kind::move_committed).empty());
  EXPECT_EQ(move({"layer.0.ffn"}, "vulkan:card").revision, 2);
  EXPECT_EQ(heard.of(ipc::event_kind::move_committed).size(), 1U);
  EXPECT_EQ(move({"layer.0.ffn", "head"}, "cpu").revision, 3);  // one of them moves
}

struct reload_test : service_test {
  std::filesystem::path folder =
      test::test_folder() / testing::UnitTest::GetInstance()->current_test_info()->name();

  reload_test() {
    std::filesystem::create_directories(folder);
    c.policies = {folder};
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
  }
  static std::string policy(const std::string& name, const std::string& above) {
    return "apiVersion: terrane/v1\npolicies:\n  - name: " + name +
           "\n    for_each: gpu\n    enter: {metric: temp_c, above: " + above +
           "}\n    leave: {metric: temp_c, below: 40C}\n    do: {move: layers, to: cpu, until: "
           "all}\n";
  }
  // Expects a move when a card is at 80 C.
  static std::string test_of_80() {
    return "scenario: Hot cards are left\nmachine:\n  devices:\n    - {name: cpu, total: 8GiB}\n"
           "    - {name: gpu, total: 8GiB, temp_c: 30C}\n"
           "  layers: {count: 1, attn: 1MiB, ffn: 1MiB, on: gpu}\n"
           "trace:\n  - {at: 2s, set: {gpu: {temp_c: 80C}}, expect: {at_least: 1}}\n";
  }
  ipc::varlink::response reload() {
    return answered([&](const ipc::varlink::reply& to) {
      answers.policy_reload(root, ipc::answer<ipc::policy_reload_reply>(to));
    });
  }
  std::string switched(const std::string& name, bool enabled) {
    return answered([&](const ipc::varlink::reply& to) {
             answers.switch_policy(root, {name, enabled},
                                   ipc::answer<ipc::policy_switch_reply>(to));
           })
        .error.value_or("");
  }
};

TEST_F(reload_test, a_set_that_fails_its_authors_tests_is_refused_and_that_stands_until_it_is_not) {
  heard_events heard(events);
  write("hot.yaml", policy("hot", "70C"));
  write("hot.test.yaml", test_of_80());
  ipc::varlink::response r = reload();
  ASSERT_EQ(r.error, std::nullopt);
  EXPECT_EQ(r.parameters.at("tests").as_int64(), 1);
  const std::string revision = loop.policies()->revision();
  EXPECT_EQ(loop.policies()->rules().size(), 1U);

  write("hot.yaml", policy("hot", "90C"));
  r = reload();
  EXPECT_EQ(r.error, "io.terrane.Control.PolicyInvalid");
  const std::string why(r.parameters.at("diagnostics").at(0).at("message").as_string());
  EXPECT_THAT(why, HasSubstr("test 'Hot cards are left'"));
  EXPECT_EQ(loop.policies()->revision(), revision);
  ASSERT_EQ(standing.all().size(), 1U);
  EXPECT_THAT(standing.all()[0], HasSubstr("the old set stays in force: "));
  EXPECT_THAT(standing.all()[0], HasSubstr("hot.test.yaml:8:"));
  EXPECT_EQ(standing.all()[0].find('\n'), std::string::npos);
  EXPECT_EQ(heard.of(ipc::event_kind::warning).size(), 1U);
  std::promise<void> ended;
  answers.reload_policies([&] { ended.set_value(); });  // as SIGHUP does
  ended.get_future().wait();
  EXPECT_EQ(heard.of(ipc::event_kind::warning).size(), 0U);  // the same

  policies::policy_set_ptr told;
  answers.on_reload([&](policies::policy_set_ptr set) { told = std::move(set); });
  write("hot.yaml", policy("hot", "60C"));
  EXPECT_EQ(reload().error, std::nullopt);
  EXPECT_EQ(loop.policies(), told);
  EXPECT_THAT(standing.all(), testing::IsEmpty());
}

TEST_F(reload_test, what_can_never_act_here_stands_in_the_status_and_in_lint) {
  std::string of_no_layer = policy("odd", "70C");
  of_no_layer.replace(of_no_layer.find("layers"), 6, "layer.99.*");
  loop.use(*policies::policy_set::from_sources({{"odd.yaml", of_no_layer}}));
  answers.tell_what_cannot_act();
  EXPECT_THAT(standing.all(), testing::IsEmpty());  // nothing has been looked at
  loop.tick();
  answers.tell_what_cannot_act();
  EXPECT_THAT(standing.all(),
              testing::ElementsAre("odd.yaml:3:5: policy 'odd' moves 'layer.99.*', and the model "
                                   "has no such part"));
  const auto linted = [&](const std::string& text) {
    return answered_with<ipc::policy_lint_reply>([&](const auto& to) {
      answers.policy_lint(root, {"odd.yaml", text}, to);
    });
  };
  EXPECT_TRUE(linted(of_no_layer).valid);
  ASSERT_EQ(linted(of_no_layer).diagnostics.size(), 1U);
  EXPECT_EQ(linted(of_no_layer).diagnostics[0].severity, ipc::diagnostic_severity::warning);
  EXPECT_TRUE(linted(policy("hot", "70C")).diagnostics.empty());
  write("a.yaml", policy("hot", "70C"));
  EXPECT_EQ(reload().error, std::nullopt);
  EXPECT_THAT(standing.all(), testing::IsEmpty());
}

TEST_F(reload_test, a_switched_off_policy_that_is_gone_is_told_and_can_be_forgotten) {
  write("a.yaml", policy("first", "70C"));
  ASSERT_EQ(reload().error, std::nullopt);
  EXPECT_EQ(switched("first", false), "");
  write("a.yaml", policy("second", "70C"));
  const ipc::varlink::response r = reload();
  ASSERT_EQ(r.error, std::nullopt);
  EXPECT_THAT(std::string(r.parameters.at("notes").at(0).as_string()),
              HasSubstr("policy 'first' is switched off and not among these"));
  EXPECT_EQ(switched("first", false), "io.terrane.Control.UnknownPolicy");
  EXPECT_EQ(switched("first", true), "");
  EXPECT_EQ(switched("first", true), "io.terrane.Control.UnknownPolicy");
  EXPECT_TRUE(loop.standing().disabled().empty());
}

// Neither wrong, of one that every set has, nor told again with each reload.
TEST_F(reload_test, what_is_switched_off_is_told_when_it_goes_and_no_more) {
  const auto notes = [&] {
    const ipc::varlink::response r = reload();
    EXPECT_EQ(r.error, std::nullopt);
    return std::ranges::count_if(r.parameters.at("notes").as_array(), [](const auto& note) {
      return std::string(note.as_string()).find("switched off") != std::string::npos;
    });
  };
  write("a.yaml", policy("first", "70C"));
  EXPECT_EQ(switched("promotion", false), "");
  EXPECT_EQ(notes(), 0);
  EXPECT_EQ(switched("first", false), "");
  write("a.yaml", policy("second", "70C"));
  EXPECT_EQ(notes(), 1);
  EXPECT_EQ(notes(), 0);
}

TEST_F(service_test, warnings_stand_in_the_status_and_are_told_once) {
  heard_events heard(events);
  standing.add("the moon is full");
  standing.add("it rains");
  const auto status = [&] {
    return answered_with<ipc::status_reply>([&](const auto& to) { answers.status(root, to); });
  };
  EXPECT_THAT(status().warnings, Contains("the moon is full"));
  EXPECT_EQ(heard.of(ipc::event_kind::warning).size(), 2U);
  standing.forget_after(1);
  EXPECT_EQ(status().warnings, std::vector<std::string>{"the moon is full"});
}

}  // namespace
}  // namespace terrane::daemon
