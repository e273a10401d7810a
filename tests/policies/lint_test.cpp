// Faults of policy files: each once, at its own place, and what an action can never reach.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using tests::gib;
using tests::machine;

std::vector<std::string> faults_of(const std::string& text) {
  const auto set = policy_set::from_sources({{"p.yaml", text}});
  std::vector<std::string> out;
  for (const diagnostic& d : set ? (*set)->warnings() : set.error()) out.push_back(to_string(d));
  return out;
}

std::string policy(const std::string& each, const std::string& enter, const std::string& leave,
                   const std::string& action, const std::string& more = "") {
  return "apiVersion: terrane/v1\npolicies:\n  - name: p\n    for_each: " + each +
         "\n    enter: " + enter + "\n    leave: " + leave + "\n    do: " + action + "\n" + more;
}

std::string of_memory(const std::string& action) {
  return policy("gpu", "{metric: vram.used_ratio, above: 92%}",
                "{metric: vram.used_ratio, below: 84%}", action);
}

TEST(lint, a_leave_that_the_action_can_never_reach_is_named_with_its_place) {
  const auto kv = [](const std::string& metric, const std::string& to) {
    return policy("tenant", "{metric: " + metric + ", above: 2GiB}",
                  "{metric: " + metric + ", below: 1GiB}", "{spill: kv, to: " + to + "}");
  };
  EXPECT_THAT(faults_of(kv("tenant.kv_bytes", "cpu")),
              ElementsAre(AllOf(StartsWith("p.yaml:6:12: error: 'spill' can never reach this "
                                           "'leave': 'tenant.kv_bytes' counts KV wherever it is"),
                                HasSubstr("compare 'tenant.gpu_kv_bytes'"))));
  EXPECT_THAT(faults_of(kv("tenant.gpu_kv_bytes", "cpu")), IsEmpty());
  EXPECT_THAT(faults_of(kv("tenant.gpu_kv_bytes", "[most_free_gpu, \"cuda:*\"]")),
              ElementsAre(HasSubstr("p.yaml:6:12: error: 'spill' can never reach")));
  EXPECT_THAT(faults_of(kv("tenant.gpu_kv_bytes", "[cuda, cpu]")), IsEmpty());
  EXPECT_THAT(
      faults_of(policy("host", "{metric: host.memory_used_ratio, above: 90%}",
                       "{metric: host.memory_used_ratio, below: 80%}", "{spill: kv, to: cpu}")),
      ElementsAre(HasSubstr("'to' leaves it where it is")));
  EXPECT_THAT(faults_of(of_memory("{move: layers, to: itself}")),
              ElementsAre(HasSubstr("'to' leaves it where it is")));
  // Taking parts away from a card that is too empty.
  EXPECT_THAT(faults_of(policy("gpu", "{metric: vram.used_ratio, below: 20%}",
                               "{metric: vram.used_ratio, above: 50%}", "{move: layers, to: cpu}")),
              ElementsAre(HasSubstr("what is taken away makes it smaller")));
  EXPECT_THAT(faults_of(policy("gpu", "{metric: vram.free, above: 4GiB}",
                               "{metric: vram.free, below: 1GiB}",
                               "{move: layers, from: cpu, to: itself}")),
              IsEmpty());
  // Where any term ends it, one that can be reached is enough.
  const std::string two =
      "_of: [{metric: kv.bytes, below: 1GiB}, {metric: kv.gpu_bytes, below: "
      "1GiB}]}";
  const auto session = [&](const std::string& how) {
    return faults_of(policy("session", "{metric: kv.gpu_bytes, above: 2GiB}", "{" + how + two,
                            "{spill: kv, to: cpu}"));
  };
  EXPECT_THAT(session("any"), IsEmpty());
  EXPECT_THAT(session("all"), ElementsAre(HasSubstr("p.yaml:6:22: error: 'spill' can never")));
  // Who says how much is enough need not reach it.
  EXPECT_THAT(
      faults_of(policy("session", "{metric: kv.bytes, above: 2GiB}",
                       "{metric: kv.bytes, below: 1GiB}", "{spill: kv, until: all, to: cpu}")),
      IsEmpty());
}

TEST(lint, a_fault_is_told_at_its_place_and_once) {
  EXPECT_THAT(faults_of(of_memory("{move: layers, to: [cpu, vulcan]}")),
              ElementsAre(AllOf(StartsWith("p.yaml:7:34: error: 'to' cannot be 'vulcan'"),
                                HasSubstr("did you mean 'vulkan'?"))));
  EXPECT_THAT(faults_of(of_memory("{move: layers, order: longest_idle, to: cpu}")),
              ElementsAre(StartsWith("p.yaml:7:31: error: 'order")));
  const auto quota = [](const std::string& text, const std::string& each = "tenant") {
    return faults_of(policy(each, "{metric: host.cpu_used_ratio, above: 90%}",
                            "{metric: host.cpu_used_ratio, below: 80%}",
                            "{spill: kv, until: all, to: cpu}", "    quota: " + text + "\n"));
  };
  EXPECT_THAT(quota("{bytes: 1GiB, on: gpus}"),
              ElementsAre(AllOf(StartsWith("p.yaml:8:30: error: 'quota' cannot be on 'gpus'"),
                                HasSubstr("did you mean 'gpu'?"))));
  EXPECT_THAT(quota("{bytes: 1GiB}", "gpu"), ElementsAre(StartsWith("p.yaml:8:12: error:")));
  EXPECT_THAT(quota("{bytes: much}"), ElementsAre(StartsWith("p.yaml:8:20: error: 'bytes'")));
  EXPECT_THAT(quota("{byte: 1GiB}"), ElementsAre(HasSubstr("did you mean 'bytes'?")));
  EXPECT_THAT(quota("{on: gpu}"), ElementsAre(HasSubstr("'quota' needs 'bytes'")));
  EXPECT_THAT(quota("{bytes: 0}"),
              ElementsAre(StartsWith("p.yaml:8:20: error: 'quota' needs bytes above zero")));
  EXPECT_THAT(quota("{bytes: 1GiB, on: vulkan}"), IsEmpty());
}

// What does nothing, or what it would do anyway.
TEST(lint, what_says_nothing_is_warned_of) {
  EXPECT_THAT(
      faults_of(of_memory("{move: layers, until: 0B, to: cpu}")),
      ElementsAre(HasSubstr("p.yaml:7:31: warning: 'until' of no bytes is reached before")));
  EXPECT_THAT(faults_of(of_memory("{move: layers, to: [cpu, vulkan, cpu]}")),
              ElementsAre(HasSubstr("p.yaml:7:42: warning: 'to' names the same target again")));
  const auto only = [](const std::string& names) {
    return policy("gpu", "{metric: vram.used_ratio, above: 92%}",
                  "{metric: vram.used_ratio, below: 84%}", "{move: layers, to: cpu}",
                  "    only: " + names + "\n");
  };
  EXPECT_THAT(faults_of(only("[]")),
              ElementsAre(HasSubstr("p.yaml:8:11: warning: 'only' lists no name and so leaves out "
                                    "nothing: the policy is for each gpu; name some")));
  EXPECT_THAT(faults_of(only("[\"vulkan:a\", \"vulkan:a\"]")),
              ElementsAre(HasSubstr("warning: 'only' names 'vulkan:a' twice")));
  EXPECT_THAT(faults_of(only("[vulkan]")), IsEmpty());
}

TEST(lint, a_folder_without_policies_and_a_test_are_told_as_that) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("lint_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto told = [](const std::filesystem::path& path) {
    std::vector<std::string> out;
    for (const diagnostic& d : lint({path})) out.push_back(to_string(d));
    return out;
  };
  std::ofstream(folder / "a.test.yaml") << "scenario: a\n";
  EXPECT_THAT(told(folder), ElementsAre(HasSubstr("warning: holds no policy: none of its files")));
  EXPECT_THAT(told(folder / "a.test.yaml"),
              ElementsAre(HasSubstr("error: is a test of policies and no policy; terranectl policy "
                                    "test runs it")));
  std::filesystem::remove_all(folder);
}

TEST(lint, what_yaml_and_quantities_refuse_is_told_in_words) {
  const std::string begin = "apiVersion: terrane/v1\npolicies:\n  - name: p\n";
  EXPECT_THAT(
      faults_of(begin + "\tfor_each: gpu\n"),
      ElementsAre("p.yaml:4:1: error: this line is indented with a tab, which YAML does not "
                  "allow; use spaces"));
  EXPECT_THAT(faults_of(policy("gpu", "{metric: vram.used_ratio, above: 92%, held: -5s}",
                               "{metric: vram.used_ratio, below: 84%}", "{move: layers, to: cpu}")),
              ElementsAre(HasSubstr("'-5s' is below 0, which nothing here can be")));
}

TEST(lint, a_driver_stands_for_its_devices) {
  const auto set = policy_set::from_sources(
      {{"p.yaml", policy("gpu", "{metric: temp_c, above: 85C}", "{metric: temp_c, below: 70C}",
                         "{move: layers, to: vulkan}", "    only: cuda\n")},
       {"p.lua",
        "policy 'q' { for_each = 'device', only = 'cuda', priority = 10,\n"
        " enter = above('temp_c', 85), leave = below('temp_c', 70),\n"
        " plan = function (d, out) out:move('layer.0.attn', 'vulkan', 'hot') end }\n"}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 8 * gib).state.temp_c = {95, 0};
  m.add_device("vulkan:b", 8 * gib).state.temp_c = {50, 0};
  m.add_layers(1, gib, gib, "cuda:a");
  pipeline_state state;
  const decision d = evaluate(**set, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 2u);
  EXPECT_EQ(d.planned.moves[0].to, "vulkan:b");
  EXPECT_EQ((*set)->rules()[1].only, std::vector<std::string>{"cuda:*"});
  // The only device of that driver is the one to be relieved: it is there, and there is such a one.
  machine alone;
  alone.add_device("cpu", 32 * gib);
  alone.add_device("vulkan:b", 8 * gib).state.temp_c = {95, 0};
  alone.add_layers(1, gib, gib, "vulkan:b");
  const auto stays = policy_set::from_sources(
      {{"p.yaml", policy("gpu", "{metric: temp_c, above: 85C}", "{metric: temp_c, below: 70C}",
                         "{move: layers, to: vulkan}")}});
  pipeline_state other;
  const decision none = evaluate(**stays, alone.at(0), other);
  ASSERT_EQ(none.records.size(), 1u);
  EXPECT_THAT(explain_text(none.records[0]),
              HasSubstr("already there, it is on vulkan:b, and no other device is like "
                        "'vulkan:*'"));
}

TEST(lint, lines_may_end_as_windows_ends_them) {
  const auto windows = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 2)
      text.insert(at, "\r");
    return text;
  };
  const std::string right = of_memory("{move: layers, to: cpu}"),
                    wrong = of_memory("{move: layers, to: cpo}");
  EXPECT_THAT(faults_of(windows(right)), IsEmpty());
  EXPECT_EQ(faults_of(windows(wrong)), faults_of(wrong));
  const std::string lua =
      "-- a comment\npolicy 'q' {\n  for_each = 'gpu',\n  enter = above('temp_c', 85),\n"
      "  leave = below('temp_c', 70),\n  plan = function (d, out)\n    out:decline 'no' end,\n}\n"
      "x = = 1\n";
  const auto place = [](const std::string& text) {
    const auto set = policy_set::from_sources({{"p.lua", text}});
    return set ? std::string() : to_string(set.error().front());
  };
  EXPECT_THAT(place(lua), StartsWith("p.lua:9:"));
  EXPECT_EQ(place(windows(lua)), place(lua));
}

}  // namespace
}  // namespace terrane::policies
