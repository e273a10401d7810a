// What a test of policies asks for, and how it is told where the test itself is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/scenario/run.hpp"

namespace terrane::policies::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A card of 8 GiB with two layers, and a policy that sends the upper one away when others need the
// memory.
constexpr const char* relief = R"(scenario: relief
yaml: |
  apiVersion: terrane/v1
  policies:
    - name: relief
      for_each: gpu
      enter: {metric: vram.used_ratio, above: 90%}
      leave: {metric: vram.used_ratio, below: 80%, held: 5s}
      do: {move: layers, to: cpu}
      undo: restore
)";
constexpr const char* machine_text = R"(machine:
  devices:
    - {name: cpu, total: 32GiB, others: 1GiB}
    - {name: gpu, total: 8GiB}
  layers: {count: 2, attn: 1GiB, ffn: 1GiB, on: gpu}
  sessions: [{id: chat, tenant: ann, tokens: 100, kv: 1MiB, on: gpu}]
)";

// What `terranectl policy test` says of it.
std::string told(const std::string& trace, const std::string& more = "",
                 const std::string& policies = relief) {
  const std::string text = policies + machine_text + more + trace;
  const auto script = scenario::read_script("s.test.yaml", text, "");
  scenario::report r;
  if (script) {
    r = scenario::run_script(*script);
  } else {
    r.faults = script.error();
  }
  return to_text(r);
}

constexpr const char* both_leave =
    "    expect: [move layer.1.ffn from gpu to cpu, move layer.1.attn from gpu to cpu]\n";
const std::string others_come =
    std::string("trace:\n  - at: 5s\n    set: {gpu: {others: 4GiB}}\n") + both_leave;

TEST(scenario_placed, is_where_parts_are_once_the_planned_moves_have_ended) {
  EXPECT_THAT(told(others_come + "    placed: {layer.1.*: cpu, layer.0.*: gpu}\n"),
              HasSubstr("ok "));
  EXPECT_THAT(told(others_come + "    placed: {layer.*: gpu}\n"),
              HasSubstr("at 5 s, once the moves planned by then have ended, layer.* should be on "
                        "gpu:\n    layer.1.attn is on cpu\n    layer.1.ffn is on cpu\n"));
  // However long they take, and though they have not begun to arrive.
  EXPECT_THAT(told(others_come + "    placed: {layer.1.*: cpu}\n", "  moves_take: 10m\n"),
              HasSubstr("ok "));
}

TEST(scenario_placed, names_the_move_that_fails) {
  const std::string why = told(others_come + "    placed: {layer.1.*: cpu}\n", "  broken: [cpu]\n");
  EXPECT_THAT(why, HasSubstr("layer.1.ffn is on gpu: its move to cpu fails, the device is broken"));
}

TEST(scenario_names, of_expected_moves_are_checked_against_the_machine) {
  const auto expecting = [](const std::string& moves) {
    return told("trace:\n  - {at: 5s, expect: [" + moves + "]}\n");
  };
  EXPECT_THAT(expecting("mvoe layer.1.ffn from gpu to cpu"),
              AllOf(HasSubstr("cannot run"), HasSubstr("s.test.yaml:18:23: error:"),
                    HasSubstr("none begins with 'mvoe'; did you mean 'move'?")));
  EXPECT_THAT(expecting("move layer.1.fnf from gpu to cpu"),
              HasSubstr("the machine has no part 'layer.1.fnf'; did you mean 'layer.1.ffn'?"));
  EXPECT_THAT(expecting("move layer.1 from gpu to cpu"),
              HasSubstr("no part 'layer.1'; it has 'layer.1.attn', 'layer.1.ffn'"));
  EXPECT_THAT(expecting("move layer.1.ffn from gpu to cpo"),
              HasSubstr("no device 'cpo'; did you mean 'cpu'?"));
  EXPECT_THAT(expecting("move layer.1.ffn to cpu"),
              HasSubstr("is no move; write 'move PART from DEVICE to DEVICE'"));
  EXPECT_THAT(expecting("spill chad from gpu to cpu keeping 1024"),
              HasSubstr("no session 'chad'; did you mean 'chat'?"));
  EXPECT_THAT(expecting("spill chat from gpu to cpu keeping some"), HasSubstr("is no move; write"));
  EXPECT_THAT(
      expecting("fetch chat from cpu to its parts"),
      AllOf(HasSubstr("FAILED"), HasSubstr("- missing   fetch chat from cpu to its parts")));
  EXPECT_THAT(told("trace:\n  - {at: 5s, shadow: [move layer.9.ffn from gpu to cpu]}\n"),
              HasSubstr("the machine has no part 'layer.9.ffn'"));
}

TEST(scenario_names, of_those_who_are_asked_about_are_checked) {
  EXPECT_THAT(told("trace:\n  - {at: 5s, why: {layer.0: pinned}}\n"),
              HasSubstr("no part and no session 'layer.0'; it has 'layer.0.attn', 'layer.0.ffn'"));
  EXPECT_THAT(told("trace:\n  - {at: 5s, placed: {layer.*.atn: gpu}}\n"),
              HasSubstr("the machine has no part 'layer.*.atn'"));
  EXPECT_THAT(told("trace:\n  - {at: 5s, admitted: [ann, anne]}\n"),
              HasSubstr("no session is of user 'anne'; did you mean 'ann'?"));
  EXPECT_THAT(told("trace:\n  - {at: 5s, admitted: [robert]}\n"),
              HasSubstr("no session is of user 'robert', and who holds nothing is admitted"));
  // Somebody new makes a request.
  EXPECT_THAT(told("trace:\n  - {at: 5s, admitted: [robert], request: {kv: 1MiB, on: gpu}}\n"),
              HasSubstr("ok "));
  EXPECT_THAT(told("trace:\n  - {at: 5s, set: {chat: {tenant: robert}}}\n"
                   "  - {at: 6s, admitted: [robert]}\n"),
              HasSubstr("ok "));
}

TEST(scenario_texts, that_are_misspelt_are_told_with_what_is_near) {
  EXPECT_THAT(told(others_come + "    says: vram.used_ratio is 100 % (abowe 90 %)\n"),
              HasSubstr("no decision says 'vram.used_ratio is 100 % (abowe 90 %)'. The nearest is "
                        "'vram.used_ratio is 100 % (above 90 %).'"));
  EXPECT_THAT(told(others_come + "    says: something else altogether\n"),
              AllOf(HasSubstr("no decision says 'something else altogether'.\n"),
                    Not(HasSubstr("The nearest"))));
  EXPECT_THAT(told(others_come + "    why: {layer.1.ffn: it is pined}\n"),
              HasSubstr("the answer to why layer.1.ffn does not say 'it is pined'."));
}

std::size_t count_of(const std::string& piece, const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != text.npos; at += piece.size()) ++n;
  return n;
}

TEST(scenario_texts, why_is_told_once_for_a_step_and_what_is_alike_in_one_line) {
  const std::string many =
      "machine:\n  devices:\n    - {name: cpu, total: 32GiB}\n    - {name: gpu, total: 8GiB}\n"
      "  layers: {count: 20, attn: 128MiB, ffn: 128MiB, on: gpu}\n"
      "trace:\n  - at: 5s\n    set: {gpu: {others: 3GiB}}\n    says: [one, another]\n"
      "    placed: {layer.*: gpu}\n";
  const auto script = scenario::read_script("s.test.yaml", relief + many, "");
  ASSERT_TRUE(script.has_value()) << to_string(script.error().front());
  const scenario::report r = scenario::run_script(*script);
  EXPECT_EQ(r.mismatches.size(), 4U);  // moves, two texts, places
  EXPECT_EQ(count_of("  Why:\n", to_text(r)), 1U) << to_text(r);
  EXPECT_EQ(count_of("Left: ", to_text(r)), 1U) << to_text(r);
  EXPECT_THAT(to_text(r),
              HasSubstr("27 parts (layer.13.attn to layer.0.attn) stay on gpu: not needed"));
  // One by one they are told all the same.
  const auto asked =
      scenario::read_script("s.test.yaml",
                            relief + many.substr(0, many.find("    says:")) +
                                "    expect: {at_least: 1}\n    says: layer.3.ffn stays on gpu\n",
                            "");
  ASSERT_TRUE(asked.has_value()) << to_string(asked.error().front());
  EXPECT_THAT(to_text(scenario::run_script(*asked)), HasSubstr("ok "));
}

TEST(scenario_numbers, that_no_machine_has_are_refused) {
  EXPECT_THAT(told("trace:\n  - {at: 5s, set: {gpu: {others: 900GiB}}}\n"),
              HasSubstr("'others' is 900 GiB, and 'gpu' has only 8 GiB"));
  EXPECT_THAT(told("trace:\n  - at: 5s\n    swing: {every: 1s, gpu: {others: [0GiB, 9GiB]}}\n"),
              HasSubstr("'others' is 9 GiB, and 'gpu' has only 8 GiB"));
  // A card that grows has room for more.
  EXPECT_THAT(told("trace:\n  - {at: 5s, set: {gpu: {total: 16GiB, others: 9GiB}}}\n"),
              HasSubstr("ok "));
  // One that shrinks has none for what others had before.
  const std::string used = "trace:\n  - {at: 5s, set: {gpu: {others: 6GiB}}}\n";
  EXPECT_THAT(told(used + "  - {at: 6s, set: {gpu: {total: 4GiB}}}\n"),
              HasSubstr("'total' is 4 GiB, and other programs use 6 GiB of 'gpu' by then; set "
                        "'others' as well"));
  EXPECT_THAT(told("trace:\n  - at: 5s\n    swing: {every: 1s, gpu: {others: [6GiB, 0GiB]}}\n"
                   "  - {at: 9s, set: {gpu: {total: 4GiB}}}\n"),
              HasSubstr("other programs use 6 GiB"));
  EXPECT_THAT(told(used + "  - {at: 6s, set: {gpu: {total: 4GiB, others: 1GiB}}}\n"),
              Not(HasSubstr("error:")));
  // A time that is wrong is one fault, and no other follows from it.
  const std::string faults = told("trace:\n  - {at: 99999999d}\n  - {at: 5s}\n");
  EXPECT_EQ(count_of("error:", faults), 1U) << faults;
  EXPECT_EQ(count_of("error:", told("trace:\n  - {at: 9d}\n  - {at: 5s}\n")), 1U);
}

TEST(scenario_file, of_a_policy_is_no_test) {
  const auto script =
      scenario::read_script("vram.yaml", "apiVersion: terrane/v1\npolicies: []\n", "/nowhere");
  ASSERT_FALSE(script.has_value());
  ASSERT_EQ(script.error().size(), 1U);
  EXPECT_EQ(to_string(script.error().front()),
            "vram.yaml: error: is a policy file, and no test of one; a test of it would be "
            "vram.test.yaml beside it; 'terranectl policy new' writes one to start from");
}

}  // namespace
}  // namespace terrane::policies::tests
