#include <algorithm>

#include "policies/reference/json_tree.hpp"
#include "policies/reference/reference.hpp"
#include "policies/vocabulary/lua_words.hpp"

namespace terrane::policies::reference {
namespace {

bool is_library(lua_object of) {
  return of == lua_object::string_library || of == lua_object::table_library ||
         of == lua_object::math_library;
}

// The global by which a library is named.
std::string_view library_name(lua_object of) {
  for (const lua_member& m : lua_members(lua_object::global)) {
    if (m.kind == member_kind::field && m.gives == name_of(of)) return m.name;
  }
  return {};
}

// Several results, with commas between, one by one: the commas of a function's type stay.
std::vector<std::string> results_of(const std::string& gives) {
  std::vector<std::string> all;
  std::string one;
  int depth = 0;
  for (const char c : gives + ",") {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      if (!one.empty()) all.push_back(one);
      one.clear();
    } else if (c != ' ' || !one.empty()) {
      one += c;
    }
  }
  return all;
}

// A function, as a declaration that a language server reads.
std::string declaration(const std::string& called, const lua_member& m) {
  std::string text = "\n--- " + m.says + "\n";
  if (!m.example.empty()) text += "---\n---     " + m.example + "\n";
  std::string names;
  for (const lua_parameter& p : m.takes) {
    text +=
        "---@param " + std::string(p.name) + (p.optional ? "? " : " ") + std::string(p.type) + "\n";
    names += (names.empty() ? "" : ", ") + std::string(p.name);
  }
  for (const std::string& result : results_of(m.gives)) text += "---@return " + result + "\n";
  return text + "function " + called + "(" + names + ") end\n";
}

std::string field_line(const lua_member& m) {
  const bool plain = m.name.find('.') == std::string::npos;
  return "---@field " + (plain ? m.name : "[\"" + m.name + "\"]") + " " + m.gives + " " + m.says +
         "\n";
}

// Lists have a length, items by number, and `for one in list do`.
std::string list_lines(lua_object of) {
  const std::optional<lua_object> item = item_of(of);
  if (!item) return "";
  const std::string one(name_of(*item));
  return "---@field [integer] " + one + "? an item, from 1 on\n---@operator len: integer\n" +
         "---@operator call: " + one + "?\n";
}

std::string class_of(const word<lua_object>& o) {
  std::string text = "\n--- " + std::string(o.says) + "\n---@class " + std::string(o.name) + "\n";
  for (const lua_member& m : lua_members(o.value)) {
    if (m.kind == member_kind::field) text += field_line(m);
  }
  text += list_lines(o.value);
  const std::string name =
      is_library(o.value) ? std::string(library_name(o.value)) : std::string(o.name) + "_class";
  text += (is_library(o.value) ? "" : "local ") + name + " = {}\n";
  for (const lua_member& m : lua_members(o.value)) {
    if (m.kind == member_kind::method) text += declaration(name + ":" + m.name, m);
    if (m.kind == member_kind::function) text += declaration(name + "." + m.name, m);
  }
  return text;
}

std::string_view type_of(key_value holds) {
  switch (holds) {
    case key_value::scope:
      return "scope_name";
    case key_value::mode:
      return "mode_name";
    case key_value::names:
      return "string|string[]";
    case key_value::whole_number:
      return "integer";
    case key_value::condition:
      return "condition";
    case key_value::bytes:
      return "number|string";
    case key_value::limit_map:
      return "limit_table";
    case key_value::flapping_map:
      return "flapping_table";
    case key_value::quota_map:
      return "quota_table";
    case key_value::function:
      return "fun(object: judged, out: recorder)";
    case key_value::lua_undo:
      return "\"restore\"|fun(object: judged, out: recorder)";
    case key_value::spilling:
      return "spilling";
    case key_value::target:
      return "target";
    default:
      return "string";
  }
}

// A table of keys that an author writes.
std::string table_of(std::string_view name, std::string_view says, place in) {
  std::string text = "\n--- " + std::string(says) + "\n---@class " + std::string(name) + "\n";
  for (const key_entry* k : keys_of(in, spoken_in::lua)) {
    std::string line(k->says);
    if (!k->otherwise.empty()) line += "; default: " + std::string(k->otherwise);
    text += "---@field " + std::string(k->name) + (k->needed ? " " : "? ") +
            std::string(type_of(k->holds)) + " " + line + "\n";
  }
  return text;
}

// What lua-language-server brings along; the stubs have what policies find of it.
constexpr std::string_view builtin_libraries[] = {"basic", "coroutine", "debug",  "io",    "math",
                                                  "os",    "package",   "string", "table", "utf8"};

}  // namespace

std::string lua_settings(std::string_view stubs) {
  json_tree off = json_tree::object();
  for (const std::string_view name : builtin_libraries) off.add(name, "disable");
  return json_tree::object({{"runtime.version", "Lua 5.4"},
                            {"runtime.builtin", off},
                            {"workspace.library", json_tree::array({stubs})}})
      .written();
}

std::string lua_stubs() {
  std::string text =
      "---@meta\n"
      "-- What a Lua policy of Terrane can name, for lua-language-server. Never run.\n"
      "-- Made by `terranectl policy stubs`; do not edit.\n";
  for (const named_type& t : named_types()) {
    text += "\n--- " + std::string(t.says) + "\n---@alias " + std::string(t.name) + " " +
            t.stands_for + "\n";
  }
  text += table_of("policy_table", "what stands in a policy's braces", place::policy);
  text += table_of("limit_table", "a policy's 'limit'", place::limit);
  text += table_of("flapping_table", "a policy's 'flapping'", place::flapping);
  text += table_of("quota_table", "a policy's 'quota'", place::quota);
  text += table_of("spill_options", "how KV is spilled", place::spill_options);
  for (const word<lua_object>& o : lua_objects()) {
    if (o.value != lua_object::global) text += class_of(o);
  }
  for (const lua_member& m : lua_members(lua_object::global)) {
    if (m.kind == member_kind::function) text += declaration(m.name, m);
  }
  return text;
}

}  // namespace terrane::policies::reference
