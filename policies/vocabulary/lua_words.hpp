// What a Lua policy can name: functions, the objects that a plan sees with their fields and
// methods, and what of Lua's own library there is. Rows of the vocabulary's table: the binding in
// policies/lua/ finds names and its error hints here, and the stubs for language servers and the
// reference page are made from it (policies/reference/). What a row does stands beside the binding;
// tests/policies/lua_words_test.cpp shows that both have the same names. Constant data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// What has members. Its name is its type's name; Lua's own libraries are tables of that name.
enum class lua_object : std::uint8_t {
  global,  // what is named without a receiver
  device,
  vram,
  part,
  session,
  kv,
  tenant,
  host,
  device_list,
  part_list,
  session_list,
  tenant_list,
  condition,
  recorder,
  string_library,
  table_library,
  math_library,
};
std::span<const word<lua_object>> lua_objects();
std::string_view name_of(lua_object o);

enum class member_kind : std::uint8_t { field, method, function };

// A parameter. The type is written as language servers read it: names of Lua's types and of
// lua_objects(), and those of named_types().
struct lua_parameter {
  std::string_view name;  // "..." takes any number
  std::string_view type;
  bool optional = false;
};

struct lua_member {
  lua_object of;
  std::string name;
  member_kind kind;
  std::vector<lua_parameter> takes;  // of a method, without the receiver
  std::string gives;                 // a type, several with commas between; empty: nothing
  std::string says;                  // a phrase for people
  std::string example;               // of a function or method: a call, in a plan for a gpu
};

// All members of an object, or all globals: the table's own rows, and those that follow from its
// metrics, selectors, comparisons, verbs and units. In the table's order.
const std::vector<lua_member>& lua_members(lua_object of);
const lua_member* find_member(lua_object of, std::string_view name);
std::vector<std::string_view> member_names(lua_object of);

// The metric that a field of that name shows; null when there is none. Valid for device, vram,
// host.
const metric_entry* metric_field(lua_object of, std::string_view name);

// Types that are neither Lua's nor an object's: what may be written for a parameter. Two more are
// tables of keys (keys.hpp): policy_table, of a policy, and spill_options.
struct named_type {
  std::string_view name;
  std::string stands_for;  // a type
  std::string_view says;
};
const std::vector<named_type>& named_types();

// What a list holds, for the four kinds of lists.
std::optional<lua_object> item_of(lua_object list);

}  // namespace terrane::policies
