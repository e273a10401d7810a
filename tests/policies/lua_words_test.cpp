// The Lua words of the vocabulary's table and those that are bound are the same, and the table
// tells their types as they are.
#include "policies/vocabulary/lua_words.hpp"

#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/lua/loader.hpp"
#include "policies/lua/objects.hpp"
#include "policies/lua/plan.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::IsSupersetOf;
using testing::UnorderedElementsAreArray;
using tests::gib;
using tests::mib;

class lua_words : public testing::Test {
 protected:
  lua_words() {
    m.add_device("cpu", 32 * gib);
    m.add_device("cuda:a", 8 * gib, 1 * gib).state.temp_c = {60, 0};
    m.device("cuda:a").state.throttled_by_heat = {0, 0};
    m.add_layers(2, 100 * mib, 200 * mib, "cuda:a", 10 * mib);
    m.add_session("s1", 4000, 64 * mib, "cuda:a").tenant = "alice";
    m.host.memory_total = {32 * gib, 0};
    m.host.on_battery = {0, 0};
  }

  // What the expression gives, as a text, in a plan for a gpu; or its fault.
  std::string says(const std::string& expression) {
    return run(
        "local function name(x)\n"
        "  if math.type(x) == 'integer' then return 'integer' end\n"
        "  return type(x)\n"
        "end\n"
        "out:decline(" +
        expression + ")");
  }

  std::string run(const std::string& body) {
    const std::string text =
        "policy \"p\" { for_each = \"gpu\", enter = above(\"vram.used_ratio\", 0.9), leave = "
        "below(\"vram.used_ratio\", 0.5), plan = function (gpu, out)\n" +
        body + "\nend }";
    std::vector<rule> rules;
    std::vector<diagnostic> faults;
    lua::load_rules("p.lua", text, rules, faults);
    if (rules.empty()) return to_string(faults.front());
    const snapshot& now = m.at(1000);
    const auto p = lua::propose(rules[0], std::get<lua_action>(rules[0].action),
                                lua::entry_point::plan, {&now, find_device(now, "cuda:a")});
    if (!p) return to_string(p.error());
    if (p->notes.empty()) return "";
    const std::string declined = "Declined: ";
    return p->notes[0].substr(declined.size(), p->notes[0].size() - declined.size() - 1);
  }

  tests::machine m;
};

// An object of that type, in a plan for a gpu.
std::string object_of(lua_object of) {
  switch (of) {
    case lua_object::device:
      return "gpu";
    case lua_object::vram:
      return "gpu.vram";
    case lua_object::part:
      return "parts()[1]";
    case lua_object::session:
      return "sessions()[1]";
    case lua_object::kv:
      return "sessions()[1].kv";
    case lua_object::tenant:
      return "tenants()[1]";
    case lua_object::host:
      return "host()";
    case lua_object::device_list:
      return "devices()";
    case lua_object::part_list:
      return "parts()";
    case lua_object::session_list:
      return "sessions()";
    case lua_object::tenant_list:
      return "tenants()";
    case lua_object::condition:
      return "above('temp_c', 80)";
    case lua_object::recorder:
      return "out";
    case lua_object::global:
      return "_G";
    case lua_object::string_library:
      return "string";
    case lua_object::table_library:
      return "table";
    case lua_object::math_library:
      return "math";
  }
  return "";
}

// The names that type() gives for what the table calls so.
std::vector<std::string> types_of(std::string type) {
  if (type.starts_with("fun(")) return {"function"};
  type = type.substr(0, type.find(','));  // of several results the first
  if (type == "any") return {"nil", "number", "integer", "string", "boolean", "device", "table"};
  std::vector<std::string> names;
  if (type.ends_with('?')) {
    names.push_back("nil");
    type.pop_back();
  }
  if (type == "number") names.push_back("integer");
  if (type.ends_with("_kind")) type = "string";
  if (type.ends_with("lib")) type = "table";
  if (const std::size_t list = type.find("_list"); list != type.npos) {
    type = "list of " + type.substr(0, list) + "s";
  }
  names.push_back(type);
  return names;
}

TEST_F(lua_words, fields_have_the_types_that_the_table_tells) {
  for (const word<lua_object>& o : lua_objects()) {
    for (const lua_member& f : lua_members(o.value)) {
      if (f.kind != member_kind::field) continue;
      const std::string type = says("name(" + object_of(o.value) + "['" + f.name + "'])");
      EXPECT_THAT(types_of(f.gives), testing::Contains(type)) << o.name << "." << f.name;
      EXPECT_NE(f.says, "") << f.name;
    }
  }
}

TEST_F(lua_words, examples_of_functions_and_methods_run_and_give_what_the_table_tells) {
  for (const word<lua_object>& o : lua_objects()) {
    for (const lua_member& f : lua_members(o.value)) {
      if (f.kind == member_kind::field) continue;
      EXPECT_NE(f.says, "") << f.name;
      if (f.example.empty()) {
        EXPECT_THAT(f.name, testing::AnyOf("policy", "error"));
      } else if (f.gives.empty()) {
        EXPECT_THAT(run(f.example), testing::Not(testing::HasSubstr("p.lua"))) << f.example;
      } else {
        EXPECT_THAT(types_of(f.gives), testing::Contains(says("name((" + f.example + "))")))
            << f.example;
      }
      EXPECT_EQ(f.example.empty() || f.example.find(f.name) != f.example.npos, true) << f.example;
    }
  }
}

TEST_F(lua_words, are_the_names_that_are_bound) {
  for (const lua_object of :
       {lua_object::device, lua_object::vram, lua_object::part, lua_object::session, lua_object::kv,
        lua_object::tenant, lua_object::host}) {
    const std::vector<std::string_view> members = lua::bound_names(of);
    std::set<std::string_view> bound(members.begin(), members.end());
    for (const metric_entry& one : metrics()) {
      for (const std::string_view name : {one.name, one.name.substr(one.name.find('.') + 1)}) {
        if (metric_field(of, name) == &one) bound.insert(name);
      }
    }
    EXPECT_THAT(bound, UnorderedElementsAreArray(member_names(of))) << name_of(of);
  }
  std::vector<std::string> of_recorder;
  for (const word<verb>& w : verbs()) of_recorder.emplace_back(w.name);
  EXPECT_THAT(member_names(lua_object::recorder), UnorderedElementsAreArray(of_recorder));
}

// Globals and libraries are tables, so a script can list them.
TEST_F(lua_words, are_all_that_a_script_finds) {
  for (const lua_object of : {lua_object::global, lua_object::string_library,
                              lua_object::table_library, lua_object::math_library}) {
    const std::string found = run("local all = {}\nfor k in pairs(" + object_of(of) +
                                  ") do all[#all + 1] = k end\nerror(table.concat(all, ' '), 0)");
    std::vector<std::string> names;
    std::istringstream words(found.substr(found.rfind(": ") + 2));
    for (std::string name; words >> name;) names.push_back(name);
    EXPECT_THAT(names, UnorderedElementsAreArray(member_names(of))) << found;
  }
}

// What a parameter or result may be is a type that is known.
TEST(lua_types, are_known) {
  std::vector<std::string> known = {"string",  "number",       "integer",       "boolean", "any",
                                    "table",   "function",     "nil",           "true",    "fun",
                                    "message", "policy_table", "spill_options", "#"};
  for (const word<lua_object>& o : lua_objects()) known.emplace_back(o.name);
  for (const named_type& t : named_types()) known.emplace_back(t.name);
  const auto words_of = [](std::string_view type) {
    std::set<std::string> words;
    std::string word;
    for (const char c : std::string(type) + " ") {
      const bool part = (c >= 'a' && c <= 'z') || c == '_' || c == '#';
      if (part) {
        word += c;
      } else if (!word.empty()) {
        if (c != ':') words.insert(word);  // what stands before a colon is a parameter's name
        word.clear();
      }
    }
    return words;
  };
  for (const word<lua_object>& o : lua_objects()) {
    for (const lua_member& f : lua_members(o.value)) {
      EXPECT_THAT(known, IsSupersetOf(words_of(f.gives))) << f.name << " gives " << f.gives;
      for (const lua_parameter& p : f.takes) {
        EXPECT_THAT(known, IsSupersetOf(words_of(p.type))) << f.name << " takes " << p.type;
      }
    }
  }
}

}  // namespace
}  // namespace terrane::policies
