// Conditions that can never hold, and policies that cannot both have their way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/pipeline/policy_set.hpp"
#include "policies/rule/value_set.hpp"

namespace terrane::policies {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct written {
  std::string name;
  std::string each = "gpu";
  std::string enter;
  std::string leave;
  std::string action;
  std::string more = "";
  std::string mode = "enforce";
};

// A line for each key; a policy takes six, and its first is at 3, 9, 15.
std::vector<std::string> faults_of(const std::vector<written>& policies) {
  std::string text = "apiVersion: terrane/v1\npolicies:\n";
  for (const written& p : policies) {
    text += "  - name: " + p.name + "\n    for_each: " + p.each + "\n    enter: " + p.enter +
            "\n    leave: " + p.leave + "\n    do: " + p.action + "\n    mode: " + p.mode + "\n" +
            p.more;
  }
  const auto set = policy_set::from_sources({{"p.yaml", text}});
  std::vector<std::string> out;
  for (const diagnostic& d : set ? (*set)->warnings() : set.error()) out.push_back(to_string(d));
  return out;
}

const written drain = {"drain", "gpu", "{metric: vram.used_ratio, above: 80%}",
                       "{metric: vram.used_ratio, below: 70%}", "{move: layers, to: cpu}"};
const written fill = {"fill", "gpu", "{metric: vram.used_ratio, below: 60%}",
                      "{metric: vram.used_ratio, above: 65%}",
                      "{move: layers, from: cpu, to: itself}"};

TEST(contradictions, a_condition_that_no_reading_meets_is_a_fault) {
  const auto entering = [](const std::string& enter) {
    written p = drain;
    p.enter = enter;
    p.leave = "{metric: vram.used_ratio, below: 50%}";
    p.action = "{move: layers, until: all, to: cpu}";
    return faults_of({p});
  };
  EXPECT_THAT(
      entering("{all_of: [{metric: temp_c, above: 80C}, {metric: temp_c, below: 70C}, {metric: "
               "vram.used_ratio, above: 60%}]}"),
      ElementsAre("p.yaml:5:52: error: 'enter' can never hold: no value is 'temp_c' above 80 C and "
                  "below 70 C at once"));
  EXPECT_THAT(
      entering("{all_of: [{metric: host.time, within: 22:00-02:00}, {metric: host.time, within: "
               "03:00-09:00}, {metric: vram.used_ratio, above: 60%}]}"),
      ElementsAre(HasSubstr("'host.time' within 22:00-02:00 and within 03:00-09:00 at once")));
  EXPECT_THAT(
      entering("{all_of: [{metric: host.weekday, within: Sat-Sun}, {metric: host.weekday, outside: "
               "Sat}, {metric: vram.used_ratio, above: 60%}]}"),
      IsEmpty());  // Sunday
  EXPECT_THAT(entering("{metric: vram.used_ratio, above: 100%}"),
              ElementsAre(HasSubstr("no value is 'vram.used_ratio' above 100 %")));
  EXPECT_THAT(entering("{any_of: [{metric: temp_c, above: 80C}, {metric: vram.free, below: 0}, "
                       "{metric: vram.used_ratio, above: 60%}]}"),
              ElementsAre(HasSubstr("error: one of the conditions of 'enter' can never hold: no "
                                    "value is 'vram.free' below 0 B")));
  // Each at its own place, in their order.
  written first = drain, second = fill;
  first.enter =
      "{all_of: [{metric: vram.used_ratio, above: 80%}, {metric: temp_c, above: 80C}, "
      "{metric: temp_c, below: 70C}]}";
  second.leave = "{metric: vram.used_ratio, above: 10%}";
  EXPECT_THAT(faults_of({first, second}),
              ElementsAre(StartsWith("p.yaml:5:"), StartsWith("p.yaml:12:")));
  EXPECT_THAT(entering("{any_of: [{metric: temp_c, above: 80C}, {metric: temp_c, below: 10C}, "
                       "{metric: vram.used_ratio, above: 60%}]}"),
              IsEmpty());
}

// Firmware holds the draw to its limit on average, and drivers report fans above full speed.
TEST(contradictions, what_may_be_above_the_whole_may_be_asked_for) {
  written p = drain;
  p.action = "{move: layers, until: all, to: cpu}";
  for (const std::string metric : {"power_ratio", "fan_ratio"}) {
    p.enter = "{metric: " + metric + ", above: 100%}";
    p.leave = "{metric: " + metric + ", below: 90%}";
    EXPECT_THAT(faults_of({p}), IsEmpty());
    p.enter = "{metric: " + metric + ", above: 105%}";
    EXPECT_THAT(faults_of({p}), IsEmpty());
    p.leave = "{metric: " + metric + ", below: 0%}";
    EXPECT_THAT(faults_of({p}), ElementsAre(HasSubstr("below 0 %")));
  }
  for (const metric_entry& m : metrics()) {
    const bool may_pass = m.id == metric_id::power_ratio || m.id == metric_id::fan_ratio;
    if (m.measured_in == unit::ratio) {
      EXPECT_EQ(is_possible(m.id, 1.05), may_pass) << m.name;
    }
  }
}

TEST(contradictions, who_brings_back_what_another_takes_away_at_the_same_level) {
  written overlapping = fill;
  overlapping.enter = "{metric: vram.used_ratio, below: 90%}";
  overlapping.leave = "{metric: vram.used_ratio, above: 95%}";
  EXPECT_THAT(faults_of({drain, overlapping}),
              ElementsAre(AllOf(
                  StartsWith("p.yaml:9:5: error: policy 'fill' contradicts 'drain' (p.yaml:3:5)"),
                  HasSubstr("'vram.used_ratio' above 80 % and 'vram.used_ratio' below 90 %"))));
  EXPECT_THAT(faults_of({drain, fill}), IsEmpty());
  // On different cards they have nothing to do with each other, nor where they move other things.
  written of_one = drain, of_another = overlapping;
  of_one.more = "    only: \"cuda:a*\"\n", of_another.more = "    only: \"cuda:b*\"\n";
  EXPECT_THAT(faults_of({of_one, of_another}), IsEmpty());
  // Where each has cards of its own, only one that both have may be between them.
  of_one.more = "    only: \"cuda:a*\"\n", of_another.more = "    only: \"cuda:*b\"\n";
  EXPECT_THAT(faults_of({of_one, of_another}),
              ElementsAre(AllOf(HasSubstr("warning: policy 'fill' may contradict 'drain'"),
                                HasSubstr("on some machines one brings back"))));
  of_another.more = "    only: \"cuda:ab\"\n";
  EXPECT_THAT(faults_of({of_one, of_another}), ElementsAre(HasSubstr("error: policy 'fill'")));
  of_another.more = "    only: \"cuda:*\"\n";
  EXPECT_THAT(faults_of({of_one, of_another}), ElementsAre(HasSubstr("contradicts")));
  written attention = drain, rest = overlapping;
  attention.action = "{move: attention, until: all, to: cpu}";
  rest.action = "{move: feed_forward, until: 1GiB, from: cpu, to: itself}";
  EXPECT_THAT(faults_of({attention, rest}), IsEmpty());
  rest.action = "{move: layer.0.*, until: 1GiB, from: cpu, to: itself}";
  EXPECT_THAT(faults_of({attention, rest}), ElementsAre(HasSubstr("contradicts")));
  rest.action = "{move: layer.40.*, until: 1GiB, from: cpu, to: itself}";
  attention.action = "{move: layer.4*.attn, until: all, to: cpu}";
  EXPECT_THAT(faults_of({attention, rest}), ElementsAre(HasSubstr("may contradict")));
  // In shadow mode one does nothing.
  rest.mode = "shadow";
  EXPECT_THAT(faults_of({attention, rest}), IsEmpty());
}

TEST(contradictions, a_higher_priority_says_which_is_to_win) {
  const written by_day = {"day", "cpu", "{metric: host.time, within: 08:00-18:00}",
                          "{metric: host.time, outside: 08:00-18:00}",
                          "{move: layers, until: all, to: most_free_gpu}"};
  written at_noon = {"noon", "gpu", "{metric: host.time, within: 12:00-13:00}",
                     "{metric: host.time, outside: 12:00-13:00}",
                     "{move: layers, until: all, to: cpu}"};
  EXPECT_THAT(faults_of({by_day, at_noon}),
              ElementsAre(HasSubstr("policy 'noon' contradicts 'day' (p.yaml:3:5)")));
  at_noon.more = "    priority: 60\n";
  EXPECT_THAT(faults_of({by_day, at_noon}), IsEmpty());
  written at_night = at_noon;
  at_night.more = "";
  at_night.enter = "{metric: host.time, within: 22:00-06:00}";
  at_night.leave = "{metric: host.time, outside: 22:00-06:00}";
  EXPECT_THAT(faults_of({by_day, at_night}), IsEmpty());
  // What each also asks for may keep them apart.
  written cool_day = by_day, warm_noon = at_noon;
  warm_noon.more = "";
  cool_day.enter =
      "{all_of: [{metric: host.time, within: 08:00-18:00}, {metric: host.pressure, "
      "above: 5%}]}";
  warm_noon.enter =
      "{all_of: [{metric: host.time, within: 12:00-13:00}, {metric: temp_c, above: "
      "50C}]}";
  EXPECT_THAT(faults_of({cool_day, warm_noon}), IsEmpty());
  EXPECT_THAT(faults_of({by_day, warm_noon}), ElementsAre(HasSubstr("contradicts")));
}

TEST(contradictions, parts_that_two_policies_send_to_different_places) {
  const written to_cpu = {"away",
                          "part",
                          "{metric: host.on_battery, is: true}",
                          "{metric: host.on_battery, is: false}",
                          "{move: parts, to: cpu}",
                          "    only: head\n"};
  written to_gpu = to_cpu;
  to_gpu.name = "back";
  to_gpu.action = "{move: parts, to: most_free_gpu}";
  EXPECT_THAT(faults_of({to_cpu, to_gpu}), ElementsAre(HasSubstr("'back' contradicts 'away'")));
  to_gpu.more = "    only: embedding\n";
  EXPECT_THAT(faults_of({to_cpu, to_gpu}), IsEmpty());
  to_gpu.more = to_cpu.more;
  to_gpu.action = to_cpu.action;
  EXPECT_THAT(faults_of({to_cpu, to_gpu}), IsEmpty());
  const written sleeps = {"sleeps", "session", "{metric: idle_s, above: 45s}",
                          "{metric: idle_s, below: 1s}", "{spill: kv, until: all, to: cpu}"};
  written wakes = sleeps;
  wakes.name = "wakes";
  wakes.enter = "{metric: idle_s, above: 30s}";
  wakes.action = "{fetch: kv}";
  EXPECT_THAT(faults_of({sleeps, wakes}), ElementsAre(HasSubstr("'wakes' contradicts 'sleeps'")));
}

// Which card "most_free_gpu" is, depends on the machine: it may be the one that is emptied.
TEST(contradictions, what_depends_on_the_machine_is_a_warning) {
  written empty_old = {"away",
                       "gpu",
                       "{metric: host.on_battery, is: false}",
                       "{metric: host.on_battery, is: true}",
                       "{move: layers, until: all, to: cpu}",
                       "    only: \"cuda:old\"\n"};
  written to_another = empty_old;
  to_another.name = "speed", to_another.each = "cpu", to_another.more = "";
  to_another.action = "{move: layers, until: all, to: most_free_gpu}";
  EXPECT_THAT(faults_of({empty_old, to_another}),
              ElementsAre(AllOf(
                  StartsWith("p.yaml:10:5: warning: policy 'speed' may contradict 'away' (p.yaml:3"
                             ":5): on some machines one brings back what the other takes away"),
                  HasSubstr("higher 'priority'"))));
  to_another.action = "{move: layers, until: all, to: \"cuda:new\"}";
  EXPECT_THAT(faults_of({empty_old, to_another}), IsEmpty());
  // Where all that one can bring them to is emptied by the other, it is certain.
  for (const std::string to : {"\"cuda:old\"", "cuda", "most_free_gpu"}) {
    to_another.action = "{move: layers, until: all, to: " + to + "}";
    written all_cards = empty_old;
    all_cards.more = to == "\"cuda:old\"" ? empty_old.more : "";
    EXPECT_THAT(faults_of({all_cards, to_another}),
                ElementsAre(HasSubstr("error: policy 'speed' contradicts 'away'")))
        << to;
  }
}

TEST(contradictions, a_level_that_another_policy_never_lets_be_reached) {
  written greedy = fill;
  greedy.leave = "{metric: vram.used_ratio, above: 75%}";
  const auto named = AllOf(HasSubstr("policy 'fill' (p.yaml:9:5) is to fill up to "
                                     "'vram.used_ratio' above 75 %"),
                           HasSubstr("past the 'leave' of 'drain' (p.yaml:3:5), "
                                     "'vram.used_ratio' below 70 %"));
  EXPECT_THAT(faults_of({drain, greedy}), ElementsAre(named));
  written first = greedy;
  EXPECT_THAT(faults_of({first, drain}),
              ElementsAre(AllOf(StartsWith("p.yaml:9:5"), HasSubstr("never gets there"))));
  greedy.action = "{move: layers, until: 1GiB, from: cpu, to: itself}";
  EXPECT_THAT(faults_of({drain, greedy}), IsEmpty());
}

}  // namespace
}  // namespace terrane::policies
