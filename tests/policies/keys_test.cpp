// The keys of the vocabulary's table and those that the loaders know are the same.
#include "policies/scenario/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/lua/loader.hpp"
#include "policies/scenario/script.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/yaml/loader.hpp"

namespace terrane::policies {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct loaded {
  std::vector<rule> rules;
  std::vector<std::string> faults;
};

template <class Load>
loaded load(Load load_rules, const std::string& text) {
  loaded l;
  std::vector<diagnostic> faults;
  load_rules("p", text, l.rules, faults);
  for (const diagnostic& d : faults) l.faults.push_back(to_string(d));
  return l;
}
loaded load_yaml(const std::string& text) { return load(yaml::load_rules, text); }
loaded load_lua(const std::string& text) { return load(lua::load_rules, text); }

using values = std::vector<std::pair<std::string, std::string>>;

// A key's value in a list of them: exchanged, or added.
values with(values all, std::string_view name, const std::string& value) {
  for (auto& [key, old] : all) {
    if (key != name) continue;
    old = value;
    return all;
  }
  all.emplace_back(name, value);
  return all;
}

std::string written(const values& all, const std::string& between) {
  std::string text;
  for (const auto& [key, value] : all) {
    text += (text.empty() ? "" : ", ") + key + between + value;
  }
  return "{" + text + "}";
}

const values comparison = {{"metric", "vram.used_ratio"}, {"above", "92%"}};
const values action = {{"move", "layers"}, {"to", "cpu"}};
const values policy = {{"name", "p"},
                       {"for_each", "gpu"},
                       {"enter", written(comparison, ": ")},
                       {"leave", "{metric: vram.used_ratio, below: 84%}"},
                       {"do", written(action, ": ")}};

std::string file_with(const values& keys) {
  return written({{"apiVersion", "terrane/v1"}, {"policies", "[" + written(keys, ": ") + "]"}},
                 ": ");
}

// A policy file in which that key has that value.
std::string yaml_with(const key_entry& k, const std::string& value) {
  const std::string name(k.name);
  const auto in_policy = [](const char* key, const values& map) {
    return file_with(with(policy, key, written(map, ": ")));
  };
  switch (k.in) {
    case place::file:
      return written(with({{"apiVersion", "terrane/v1"}, {"policies", "[]"}}, name, value), ": ");
    case place::policy:
      return file_with(with(policy, name, value));
    case place::comparison:
      if (k.holds == key_value::truth)
        return in_policy("enter", {{"metric", "throttle.heat"}, {name, value}});
      if (k.holds == key_value::range)
        return in_policy("enter", {{"metric", "host.time"}, {name, value}});
      if (k.holds == key_value::quantity)
        return in_policy("enter", {{"metric", "vram.used_ratio"}, {name, value}});
      return in_policy("enter", with(comparison, name, value));
    case place::group:
      if (k.holds == key_value::condition_list) return in_policy("enter", {{name, value}});
      return in_policy("enter", {{"all_of", "[" + written(comparison, ": ") + "]"}, {name, value}});
    case place::action:
      if (k.id == policy_key::keep_tokens)
        return in_policy("do", {{"spill", "kv"}, {"to", "cpu"}, {name, value}});
      if (find_word(verbs(), name)) return in_policy("do", {{name, value}, {"to", "cpu"}});
      return in_policy("do", with(action, name, value));
    case place::limit:
      return in_policy("limit", with({{"bytes", "4GiB"}, {"per", "10s"}}, name, value));
    case place::flapping:
      return in_policy("flapping", with({{"times", "3"}, {"per", "10m"}}, name, value));
    case place::quota:
      return in_policy("quota", with({{"bytes", "4GiB"}}, name, value));
    case place::spill_options:
      break;
  }
  return "";
}

// A nested list is no value of any key, so a key that is read refuses it, and says so by its name.
TEST(keys, of_yaml_are_all_read) {
  for (const key_entry& k : policy_keys()) {
    if (k.language == spoken_in::lua) continue;
    const loaded l = load_yaml(yaml_with(k, "[[x]]"));
    const bool contents = k.holds == key_value::policy_list ||
                          k.holds == key_value::condition_list || k.holds == key_value::version;
    EXPECT_THAT(l.faults, Not(IsEmpty())) << k.name;
    if (!contents) {
      EXPECT_THAT(l.faults, Contains(HasSubstr(std::string(k.name))));
    }
    EXPECT_THAT(l.faults, Each(Not(HasSubstr("has no key")))) << k.name;
  }
}

TEST(keys, examples_are_good_values) {
  for (const key_entry& k : policy_keys()) {
    if (k.language == spoken_in::lua) continue;
    loaded l = load_yaml(yaml_with(k, std::string(k.example)));
    // What a key's value means together with its neighbours is lint's.
    std::erase_if(l.faults, [](const std::string& f) {
      return f.find("warning") != f.npos || f.find("is a metric of a") != f.npos ||
             f.find("'quota' is what a user") != f.npos || f.find("'fetch' brings") != f.npos ||
             f.find("opposite directions") != f.npos || f.find("can never reach") != f.npos;
    });
    if (k.id == policy_key::within || k.id == policy_key::outside) {
      EXPECT_THAT(l.faults, Each(HasSubstr("time of day"))) << k.name;
      continue;
    }
    EXPECT_THAT(l.faults, IsEmpty()) << k.name;
  }
}

TEST(keys, of_lua_are_all_read) {
  const values lua_policy = {{"for_each", "'gpu'"},
                             {"enter", "above('vram.used_ratio', 0.9)"},
                             {"leave", "below('vram.used_ratio', 0.5)"},
                             {"plan", "function (gpu, out) end"}};
  const auto text = [&](const values& v) { return "policy 'p' " + written(v, " = "); };
  ASSERT_THAT(load_lua(text(lua_policy)).faults, IsEmpty());
  for (const key_entry* k : keys_of(place::policy, spoken_in::lua)) {
    const loaded l = load_lua(text(with(lua_policy, k->name, "{ {} }")));
    EXPECT_THAT(l.faults, Contains(HasSubstr("'" + std::string(k->name) + "'"))) << k->name;
    EXPECT_THAT(l.faults, Each(Not(HasSubstr("has no key")))) << k->name;
  }
  for (const char* nested : {"limit", "flapping"}) {
    const place in = nested == std::string_view("limit") ? place::limit : place::flapping;
    for (const key_entry* k : keys_of(in, spoken_in::lua)) {
      const std::string map = "{ " + std::string(k->name) + " = 'x' }";
      const loaded l = load_lua(text(with(lua_policy, nested, map)));
      EXPECT_THAT(l.faults, Not(IsEmpty())) << k->name;
      EXPECT_THAT(l.faults, Each(Not(HasSubstr("has no key")))) << k->name;
    }
  }
}

TEST(keys, stand_in_the_order_of_their_ids_and_are_unique) {
  for (std::size_t i = 0; i < policy_keys().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(policy_keys()[i].id), i);
  }
  for (const word<place>& p : places()) {
    for (const spoken_in language : {spoken_in::yaml, spoken_in::lua}) {
      std::vector<std::string_view> names = key_names(p.value, language);
      std::ranges::sort(names);
      EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << p.name;
    }
  }
  EXPECT_EQ(row_of(policy_key::flapping_times).most, most_flaps);
}

// The loader finds comparisons and verbs by their words.
TEST(keys, hold_every_comparison_and_every_verb_of_yaml) {
  for (const word<terrane::policies::comparison>& w : comparisons()) {
    EXPECT_NE(find_yaml_key(place::comparison, w.name), nullptr) << w.name;
  }
  for (const key_entry& k : policy_keys()) {
    const bool compares = k.holds == key_value::quantity || k.holds == key_value::truth ||
                          k.holds == key_value::range;
    EXPECT_EQ(compares, find_word(comparisons(), k.name).has_value()) << k.name;
    if (k.in != place::action) continue;
    const bool acts = k.holds == key_value::parts || k.holds == key_value::kv ||
                      k.holds == key_value::spilling || k.holds == key_value::whole_device;
    EXPECT_EQ(acts, find_word(verbs(), k.name).has_value()) << k.name;
  }
}

// What a row says it is when it is left out: the same rule comes of writing it.
TEST(keys, defaults_are_as_they_say) {
  const auto rule_of = [](const values& v) {
    loaded l = load_yaml(file_with(v));
    EXPECT_THAT(l.faults, IsEmpty());
    return l.rules.at(0);
  };
  const rule plain = rule_of(policy);
  EXPECT_EQ(plain.min_stay_ms, 5000);
  for (const policy_key id : {policy_key::mode, policy_key::priority, policy_key::cooldown,
                              policy_key::flapping, policy_key::undo}) {
    const key_entry& k = row_of(id);
    const rule same = rule_of(with(policy, k.name, std::string(k.otherwise)));
    EXPECT_EQ(same.mode, plain.mode);
    EXPECT_EQ(same.priority, plain.priority);
    EXPECT_EQ(same.cooldown_ms, plain.cooldown_ms);
    EXPECT_EQ(same.flapping.times, plain.flapping.times);
    EXPECT_EQ(same.flapping.per_ms, plain.flapping.per_ms);
    EXPECT_EQ(same.undo, plain.undo);
  }
}

// A test in which that key of that place holds a nested list.
std::string test_with(const scenario::test_key_entry& k) {
  using scenario::test_place;
  values keys = {{"scenario", "s"},
                 {"yaml", "'{apiVersion: terrane/v1, policies: []}'"},
                 {"machine", "{devices: {name: gpu, total: 8GiB}}"},
                 {"trace", "[{at: 1s}]"}};
  const std::string value = "[[x]]";
  const std::string own = "{" + std::string(k.name) + ": " + value + "}";
  const auto in_machine = [&](const std::string& list) {
    const std::string devices = "{name: gpu, total: 8GiB}";
    return with(keys, "machine", "{devices: " + devices + ", " + list + ": " + own + "}");
  };
  switch (k.in) {
    case test_place::file:
      keys = with(keys, k.name, value);
      break;
    case test_place::machine:
      keys = with(keys, "machine", own);
      break;
    case test_place::device:
      keys = with(keys, "machine", "{devices: " + own + "}");
      break;
    case test_place::layers:
      keys = in_machine("layers");
      break;
    case test_place::part:
      keys = in_machine("parts");
      break;
    case test_place::session:
      keys = in_machine("sessions");
      break;
    case test_place::step:
      keys = with(keys, "trace", "[" + own + "]");
      break;
    case test_place::counts:
      keys = with(keys, "trace", "[{at: 1s, expect: " + own + "}]");
      break;
    case test_place::swing:
      keys = with(keys, "trace", "[{at: 1s, swing: " + own + "}]");
      break;
    case test_place::request:
      keys = with(keys, "trace", "[{at: 1s, admitted: ann, request: " + own + "}]");
      break;
  }
  return written(keys, ": ");
}

TEST(test_keys, are_all_read_and_in_the_order_of_their_ids) {
  for (std::size_t i = 0; i < scenario::test_keys().size(); ++i) {
    const scenario::test_key_entry& k = scenario::test_keys()[i];
    EXPECT_EQ(static_cast<std::size_t>(k.id), i);
    const auto read = scenario::read_script("t.yaml", test_with(k), ".");
    ASSERT_FALSE(read.has_value()) << k.name;
    for (const diagnostic& d : read.error()) {
      EXPECT_THAT(d.message, Not(HasSubstr("has no key"))) << k.name;
    }
  }
}

}  // namespace
}  // namespace terrane::policies
