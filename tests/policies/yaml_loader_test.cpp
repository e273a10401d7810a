#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/pipeline/policy_set.hpp"
#include "policies/yaml/loader.hpp"

namespace terrane::policies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> faults_of(const std::string& text) {
  std::vector<rule> rules;
  std::vector<diagnostic> faults;
  yaml::load_rules("p.yaml", text, rules, faults);
  std::vector<std::string> texts;
  for (const diagnostic& d : faults) texts.push_back(to_string(d));
  return texts;
}

// A good policy file with one line exchanged.
std::string with(const std::string& from = "", const std::string& to = "") {
  std::string text =
      "apiVersion: terrane/v1\n"
      "policies:\n"
      "  - name: spill\n"
      "    mode: enforce\n"
      "    for_each: gpu\n"
      "    priority: 70\n"
      "    enter: {metric: vram.used_ratio, above: 92%, held: 5s}\n"
      "    leave: {metric: vram.used_ratio, below: 84%}\n"
      "    cooldown: 2m\n"
      "    min_stay: 10s\n"
      "    limit: {bytes: 4GiB, per: 10s}\n"
      "    do: {move: layers, order: largest_first, until: leave, to: [vulkan:x, cpu]}\n"
      "    undo: restore\n";
  if (from.empty()) return text;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::invalid_argument(from);
  return text.replace(at, from.size(), to);
}

TEST(yaml_loader, reads_every_key) {
  std::vector<rule> rules;
  std::vector<diagnostic> faults;
  yaml::load_rules("p.yaml", with(), rules, faults);
  ASSERT_THAT(faults, IsEmpty());
  ASSERT_EQ(rules.size(), 1u);
  const rule& r = rules.front();
  EXPECT_EQ(r.name, "spill");
  EXPECT_EQ(to_string(r.where), "p.yaml:3:5");
  EXPECT_EQ(r.mode, rule_mode::enforce);
  EXPECT_EQ(r.for_each, scope::gpu);
  EXPECT_EQ(r.priority, 70);
  ASSERT_EQ(r.enter.terms.size(), 1u);
  EXPECT_EQ(r.enter.terms[0].metric, metric_id::vram_used_ratio);
  EXPECT_EQ(r.enter.terms[0].compare, comparison::above);
  EXPECT_DOUBLE_EQ(r.enter.terms[0].limit, 0.92);
  EXPECT_EQ(r.enter.terms[0].held_ms, 5000);
  // Not given: six times as long as `enter`.
  EXPECT_EQ(r.leave.held_ms, 30'000);
  EXPECT_EQ(r.cooldown_ms, 120'000);
  EXPECT_EQ(r.min_stay_ms, 10'000);
  EXPECT_EQ(r.limit.bytes, 4ull << 30);
  EXPECT_EQ(r.limit.per_ms, 10'000);
  const auto& action = std::get<declarative_action>(r.action);
  EXPECT_EQ(action.action, verb::move);
  EXPECT_EQ(action.what, selection::layers);
  EXPECT_EQ(action.order, ordering::largest_first);
  EXPECT_EQ(action.until, extent::leave);
  ASSERT_EQ(action.to.size(), 2u);
  EXPECT_EQ(action.to[0].device, "vulkan:x");
  EXPECT_EQ(action.to[1].kind, target_kind::cpu);
  EXPECT_EQ(r.undo, undo_kind::restore);
}

struct bad_case {
  const char* from;
  const char* to;
  const char* expected;  // a piece of the only message
};

class yaml_mistakes : public testing::TestWithParam<bad_case> {};

TEST_P(yaml_mistakes, are_named_with_their_place) {
  const bad_case& c = GetParam();
  const std::vector<std::string> faults = faults_of(with(c.from, c.to));
  ASSERT_EQ(faults.size(), 1u) << testing::PrintToString(faults);
  EXPECT_THAT(faults.front(), HasSubstr(c.expected));
}

INSTANTIATE_TEST_SUITE_P(
    all, yaml_mistakes,
    testing::Values(
        bad_case{"cooldown: 2m", "cooldwn: 2m",
                 "p.yaml:9:5: error: a policy has no key 'cooldwn'; did you mean 'cooldown'?"},
        bad_case{"cooldown: 2m", "xyzzy: 2m",
                 "has no key 'xyzzy'; known: name, mode, for_each, only, priority, enter, leave, "
                 "emergency, cooldown, min_stay, limit, quota, flapping, do, undo"},
        bad_case{"for_each: gpu", "for_each: gpus",
                 "p.yaml:5:15: error: 'for_each' cannot be 'gpus'; did you mean 'gpu'?"},
        bad_case{"vram.used_ratio, above", "vram.use_ratio, above",
                 "p.yaml:7:21: error: there is no metric 'vram.use_ratio'; did you mean "
                 "'vram.used_ratio'?"},
        bad_case{"above: 92%", "above: 92",
                 "p.yaml:7:45: error: 'above': '92' is more than the "
                 "whole; did you mean 92%?"},
        bad_case{"for_each: gpu", "for_each: gpu\n    only: {a: b}", "'only' must be a name"},
        bad_case{"move: layers", "move: layers, from: fast", "'from' takes cpu and names"},
        bad_case{"move: layers", "move: layers, from: [[cpu]]", "'from' must be a target"},
        bad_case{"above: 92%", "above: 92C", "'92C' is not a quantity such as 92%"},
        bad_case{"above: 92%", "above: -1%", "'-1%' is below 0"},
        bad_case{"above: 92%", "above: nan", "not a quantity"},
        bad_case{"above: 92%, ", "", "either 'above' or 'below'"},
        bad_case{"held: 5s", "held: 5", "'held': '5' has no unit; did you mean 5s?"},
        bad_case{"held: 5s", "held: 1e300s", "out of range"},
        bad_case{"below: 84%", "below: 95%",
                 "p.yaml:8:12: error: there is no band between 'enter'"},
        bad_case{"below: 84%", "below: 92%", "there is no band"},
        bad_case{"below: 84%", "above: 84%", "opposite directions"},
        bad_case{"    leave: {metric: vram.used_ratio, below: 84%}\n", "",
                 "p.yaml:3:5: error: a policy needs 'leave'"},
        bad_case{"priority: 70", "priority: 101", "a whole number from 0 to 100, not '101'"},
        bad_case{"mode: enforce", "mode: [enforce]", "'mode' must be a single value, not a list"},
        bad_case{"name: spill", "name: on", "p.yaml:3:11: error: a bare 'on' is a boolean"},
        bad_case{"mode: enforce", "on: gpu", "YAML 1.1 reads a bare 'on' as true or false"},
        bad_case{"mode: enforce", "name: other",
                 "p.yaml:4:5: error: 'name' is here twice; the first is in line 3"},
        bad_case{"name: spill", "name: 'sp ill'", "'sp ill' is no policy name"},
        bad_case{"move: layers", "move: leyers", "did you mean 'layers'?"},
        bad_case{"move: layers, ", "", "'do' needs a verb"},
        bad_case{"move: layers, order: largest_first", "spill: cheapest",
                 "'spill' cannot be 'cheapest'; did you mean 'cheaper'?"},
        bad_case{"move: layers, order: largest_first, until: leave", "spill: cheaper, until: all",
                 "must know how much is to leave"},
        bad_case{"move: layers", "move: layers, spill: kv", "'do' holds one verb"},
        bad_case{"[vulkan:x, cpu]", "gpu0", "a device is named by driver and identity"},
        bad_case{"until: leave", "until: soon", "'until' must be leave, all or a number of bytes"},
        bad_case{"terrane/v1", "terrane/v2", "p.yaml:1:13: error: 'apiVersion' must be terrane/v1"},
        bad_case{"bytes: 4GiB", "bytes: 0", "needs bytes and a time above zero"},
        bad_case{"name: spill", "name: &a spill", "anchors (&name) are not allowed"},
        bad_case{"undo: restore", "undo: *a", "not valid YAML"},
        bad_case{"name: spill", "name: !!str spill", "tags"},
        bad_case{"undo: restore", "undo: {", "not valid YAML"}));

TEST(yaml_loader, compares_truths_times_and_days_as_such) {
  const auto rule_of = [](const std::string& enter, const std::string& leave) {
    std::vector<rule> rules;
    std::vector<diagnostic> faults;
    yaml::load_rules(
        "p.yaml",
        "apiVersion: terrane/v1\npolicies:\n  - name: a\n    for_each: gpu\n    enter: " + enter +
            "\n    leave: " + leave + "\n    do: {move: layers, until: all, to: cpu}\n",
        rules, faults);
    return faults.empty() ? rules.at(0) : throw std::invalid_argument(to_string(faults[0]));
  };
  const rule night = rule_of("{metric: host.time, within: 22:00-07:00}",
                             "{metric: host.time, outside: 22:00-07:00}");
  const term& at_night = night.enter.terms.at(0);
  EXPECT_EQ(limit_text(at_night), "within 22:00-07:00");
  for (const int hour : {22, 23, 0, 6}) EXPECT_TRUE(compares(at_night, hour * 3600)) << hour;
  for (const int hour : {7, 12, 21}) EXPECT_FALSE(compares(at_night, hour * 3600)) << hour;
  EXPECT_TRUE(compares(night.leave.terms.at(0), 7 * 3600));
  const rule weekend = rule_of("{metric: host.weekday, within: Sat-Mon}",
                               "{metric: host.weekday, outside: Sat-Mon}");
  for (const int day : {6, 7, 1}) EXPECT_TRUE(compares(weekend.enter.terms.at(0), day)) << day;
  for (const int day : {2, 5}) EXPECT_FALSE(compares(weekend.enter.terms.at(0), day)) << day;
  const rule battery =
      rule_of("{metric: host.on_battery, is: true}", "{metric: host.on_battery, is: false}");
  EXPECT_TRUE(compares(battery.enter.terms.at(0), 1));
  EXPECT_TRUE(compares(battery.leave.terms.at(0), 0));
  const auto fault = [&](const std::string& enter, const std::string& leave) -> std::string {
    try {
      rule_of(enter, leave);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_THAT(fault("{metric: host.time, above: 22:00}", "{metric: temp_c, below: 1C}"),
              HasSubstr("'host.time' takes 'within' or 'outside', not 'above'"));
  EXPECT_THAT(fault("{metric: temp_c, is: true}", "{metric: temp_c, below: 1C}"),
              HasSubstr("'temp_c' takes 'above' or 'below', not 'is'"));
  EXPECT_THAT(fault("{metric: host.time, within: 24:00-07:00}", "{metric: temp_c, below: 1C}"),
              HasSubstr("'24:00' is no time of day"));
  EXPECT_THAT(fault("{metric: host.on_battery, is: yes}", "{metric: temp_c, below: 1C}"),
              HasSubstr("neither true nor false"));
  EXPECT_THAT(fault("{metric: host.on_battery, is: true}", "{metric: host.on_battery, is: true}"),
              HasSubstr("ask the same"));
}

TEST(yaml_loader, refuses_what_does_not_fit_the_object) {
  const auto faults = faults_of(
      "apiVersion: terrane/v1\n"
      "policies:\n"
      "  - name: a\n"
      "    for_each: session\n"
      "    enter: {metric: temp_c, above: 85C}\n"
      "    leave: {metric: temp_c, below: 70C}\n"
      "    do: {move: layers, until: leave, to: cpu}\n");
  ASSERT_EQ(faults.size(), 4u) << testing::PrintToString(faults);
  EXPECT_THAT(faults[0], HasSubstr("p.yaml:5:12: error: 'temp_c' is a metric of a device"));
  EXPECT_THAT(faults[2], HasSubstr("'spill: kv' moves its KV cache"));
  EXPECT_THAT(faults[3], HasSubstr("'until: leave' needs a 'leave' whose metric counts bytes"));
}

TEST(yaml_loader, finds_every_fault_in_one_pass) {
  std::string text = with("priority: 70", "priorty: 70");
  text.replace(text.find("5s"), 2, "5x");
  text.replace(text.find("restore"), 7, "restor");
  EXPECT_EQ(faults_of(text).size(), 3u);
}

TEST(yaml_loader, survives_what_is_no_policy) {
  EXPECT_THAT(faults_of(""), ElementsAre(HasSubstr("empty")));
  EXPECT_THAT(faults_of("- a\n- b\n"), testing::Contains(HasSubstr("must be a map")));
  EXPECT_THAT(faults_of(std::string("a: \0b", 5)), ElementsAre(HasSubstr("NUL byte")));
  EXPECT_THAT(faults_of(with() + "---\na: b\n"), ElementsAre(HasSubstr("second document")));
  EXPECT_THAT(faults_of("a: " + std::string(100, '[') + std::string(100, ']')),
              ElementsAre(HasSubstr("nested")));
  EXPECT_FALSE(faults_of(std::string(100'000, '[')).empty());
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string last(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + std::string(1, c) + " [*" + last + ",*" + last + "]\n";
  }
  EXPECT_THAT(faults_of(bomb), ElementsAre(HasSubstr("anchors")));
  std::string many = "a: [";
  for (int i = 0; i < 60'000; ++i) many += "1,";
  EXPECT_THAT(faults_of(many + "1]"), ElementsAre(HasSubstr("more than 50000 values")));
}

// yaml-cpp makes bytes of these escapes that are no characters. Found by a fuzzer, in a key.
TEST(yaml_loader, escapes_that_are_read_as_single_bytes_are_refused) {
  const std::string advice = "write the characters of \\N and \\_ themselves";
  for (const char* text : {"\"a\\_b\": 1\n", "policies: [\"a\\Nb\"]\n"}) {
    EXPECT_THAT(faults_of(text), ElementsAre(AllOf(HasSubstr("'a\\x"), HasSubstr(advice)))) << text;
  }
  EXPECT_THAT(faults_of("\"a\\u00a0b\": 1\n"), Not(Contains(HasSubstr(advice))));
}

// Messages quote the file and are sent as JSON, which is UTF-8.
TEST(yaml_loader, refuses_other_encodings_where_they_begin) {
  for (const char* bad : {"caf\xE9", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    EXPECT_THAT(faults_of(with("spill", bad)), ElementsAre(HasSubstr("p.yaml:3:1"))) << bad;
  }
  EXPECT_THAT(faults_of(with("spill", "caf\xE9")),
              ElementsAre("p.yaml:3:14: error: the byte E9 is not UTF-8; save the file as UTF-8"));
  EXPECT_THAT(faults_of(with() + "# \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\n"), IsEmpty());
  const auto lua = policy_set::from_sources({{"p.lua", "-- caf\xE9\n"}});
  ASSERT_FALSE(lua);
  EXPECT_THAT(lua.error().front().message, HasSubstr("is not UTF-8"));
}

// The parser quotes one byte of a character that is no escape.
TEST(yaml_loader, quotes_no_half_character) {
  const std::vector<std::string> faults = faults_of("a: \"\\\xC3\xA9\"\n");
  EXPECT_THAT(faults, ElementsAre(AllOf(HasSubstr("not valid YAML"), HasSubstr("\\xC3"))));
}

TEST(policy_set, keeps_priority_then_file_order) {
  const std::string a = with("name: spill", "name: a");
  const std::string b = with("name: spill", "name: b");
  const std::string c =
      with("name: spill", "name: c")
          .replace(with("name: spill", "name: c").find("priority: 70"), 12, "priority: 80");
  const auto set = policy_set::from_sources({{"1.yaml", a}, {"2.yaml", b}, {"3.yaml", c}});
  ASSERT_TRUE(set.has_value());
  std::vector<std::string> names;
  for (const rule& r : (*set)->rules()) names.push_back(r.name);
  EXPECT_THAT(names, ElementsAre("c", "a", "b"));
  EXPECT_NE((*set)->find("b"), nullptr);
  EXPECT_EQ((*set)->find("d"), nullptr);
}

TEST(policy_set, refuses_a_name_that_is_taken_and_a_file_that_is_too_large) {
  auto set = policy_set::from_sources({{"1.yaml", with()}, {"2.yaml", with()}});
  ASSERT_FALSE(set.has_value());
  EXPECT_THAT(to_string(set.error().front()),
              HasSubstr("2.yaml:3:5: error: there is a policy 'spill' already, at 1.yaml:3:5"));
  set = policy_set::from_sources({{"1.yaml", std::string(max_policy_file_bytes + 1, ' ')}});
  ASSERT_FALSE(set.has_value());
  EXPECT_THAT(to_string(set.error().front()), HasSubstr("256 KiB"));
  set = policy_set::from_sources({{"notes.txt", ""}});
  ASSERT_FALSE(set.has_value());
}

TEST(policy_set, revision_follows_the_text) {
  const auto revision = [](const std::string& text) {
    return (*policy_set::from_sources({{"a.yaml", text}}))->revision();
  };
  EXPECT_EQ(revision(with()), revision(with()));
  EXPECT_NE(revision(with()), revision(with("92%", "93%")));
  EXPECT_EQ(policy_set::empty()->rules().size(), 0u);
}

TEST(policy_set, says_which_path_is_wrong) {
  EXPECT_THAT(to_string(lint({"/nonexistent/policies"}).front()),
              HasSubstr("/nonexistent/policies: error: does not exist"));
  EXPECT_THAT(to_string(lint({"/dev/zero"}).front()), HasSubstr("no regular file"));
}

// What is shipped and what the examples show must load without even a warning.
TEST(policy_set, shipped_and_example_policies_are_clean) {
  const std::filesystem::path root = std::filesystem::path(TERRANE_TEST_DATA).parent_path();
  for (const char* directory : {"policies/shipped", "examples/policies"}) {
    const auto set = policy_set::load({root / directory});
    const auto faults = lint({root / directory});
    EXPECT_THAT(faults, IsEmpty()) << to_string(faults.empty() ? diagnostic{} : faults.front());
    ASSERT_TRUE(set.has_value());
    EXPECT_GE((*set)->rules().size(), 3u) << directory;
  }
}

}  // namespace
}  // namespace terrane::policies
