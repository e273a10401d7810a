#include "policies/lua/library.hpp"

#include <algorithm>
#include <climits>
#include <cmath>

#include <lua.hpp>

#include "policies/lua/library_power.hpp"
#include "policies/lua/sandbox_binding.hpp"
#include "policies/lua/sandbox_evaluation.hpp"

namespace terrane::policies::lua {
namespace {

constexpr std::size_t bytes_per_unit = 64;

bool is_text_or_number(lua_State* L, int index) {
  const int type = lua_type(L, index);
  return type == LUA_TSTRING || type == LUA_TNUMBER;
}

// Calls the metamethod that either of two operands has; false when neither has it.
bool call_metamethod(lua_State* L, int left, int right, const char* event) {
  if (luaL_getmetafield(L, left, event) == LUA_TNIL &&
      luaL_getmetafield(L, right, event) == LUA_TNIL) {
    return false;
  }
  lua_pushvalue(L, left);
  lua_pushvalue(L, right);
  lua_call(L, 2, 1);
  return true;
}

int power(lua_State* L) {
  lua_settop(L, 2);
  if (lua_type(L, 1) == LUA_TNUMBER && lua_type(L, 2) == LUA_TNUMBER) {
    charge(L, 32);
    lua_pushnumber(L, exact_power(lua_tonumber(L, 1), lua_tonumber(L, 2)));
    return 1;
  }
  if (call_metamethod(L, 1, 2, "__pow")) return 1;
  const int wrong = lua_type(L, 1) == LUA_TNUMBER ? 2 : 1;
  return luaL_error(L, "attempt to raise to a power with a %s value", type_name(L, wrong));
}

// Joins values on the stack from `first` to the top, all texts or numbers, into one string.
void join(lua_State* L, int first) {
  const int last = lua_gettop(L);
  std::size_t total = 0;
  for (int i = first; i <= last; ++i) total += check_text(L, i).size();
  check_string_size(L, total);
  luaL_Buffer joined;
  char* out = luaL_buffinitsize(L, &joined, total);
  for (int i = first; i <= last; ++i) {
    const std::string_view text = check_text(L, i);
    out += text.copy(out, text.size());
  }
  luaL_pushresultsize(&joined, total);
  lua_replace(L, first);
  lua_settop(L, first);
}

// With an operand of another type, Lua's way: from the right, two at a time.
void join_last_two(lua_State* L) {
  const int right = lua_gettop(L);
  const int left = right - 1;
  if (is_text_or_number(L, left) && is_text_or_number(L, right)) return join(L, left);
  charge(L, 1);
  if (!call_metamethod(L, left, right, "__concat")) {
    const int wrong = is_text_or_number(L, left) ? right : left;
    luaL_error(L, "attempt to concatenate a %s value", type_name(L, wrong));
  }
  lua_replace(L, left);
  lua_settop(L, left);
}

int concat(lua_State* L) {
  charge(L, lua_gettop(L));
  bool plain = true;
  for (int i = 1; i <= lua_gettop(L); ++i) plain = plain && is_text_or_number(L, i);
  if (plain) {
    join(L, 1);
  } else {
    while (lua_gettop(L) > 1) join_last_two(L);
  }
  return 1;
}

int length(lua_State* L) {
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushinteger(L, static_cast<lua_Integer>(lua_rawlen(L, 1)));
  } else if (push_plain(L, 1)) {
    lua_pushinteger(L, border(L, -1));
  } else if (const object_class* const kind = kind_of(L, 1); kind && kind->length) {
    lua_pushcfunction(L, kind->length);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
  } else {
    return luaL_error(L, "attempt to get length of a %s value", type_name(L, 1));
  }
  return 1;
}

// What `for ... in` runs on, without the fourth value, which would be closed when the loop ends.
int iterate(lua_State* L) {
  lua_settop(L, 3);
  return 3;
}

// Fills a table with functions, on top of the stack.
void set_functions(lua_State* L, const luaL_Reg* functions) {
  for (; functions->name; ++functions) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

void add_constants(lua_State* L) {
  lua_pushnumber(L, HUGE_VAL);
  lua_setfield(L, -2, "huge");
  lua_pushnumber(L, 3.141592653589793);
  lua_setfield(L, -2, "pi");
  lua_pushinteger(L, LUA_MAXINTEGER);
  lua_setfield(L, -2, "maxinteger");
  lua_pushinteger(L, LUA_MININTEGER);
  lua_setfield(L, -2, "mininteger");
}

// Strings have one metatable for all: their methods are the string library's.
void set_string_metatable(lua_State* L) {
  lua_pushliteral(L, "");
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

}  // namespace

int open_library(lua_State* L) {
  lua_pushglobaltable(L);
  set_functions(L, base_functions);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "_G");
  lua_createtable(L, 0, 16);
  set_functions(L, string_functions);
  set_string_metatable(L);
  make_readonly(L);
  lua_setfield(L, -2, "string");
  lua_createtable(L, 0, 8);
  set_functions(L, table_functions);
  make_readonly(L);
  lua_setfield(L, -2, "table");
  lua_createtable(L, 0, 32);
  set_functions(L, math_functions);
  add_constants(L);
  make_readonly(L);
  lua_setfield(L, -2, "math");
  return 0;
}

void push_operators(lua_State* L) {
  lua_pushcfunction(L, power);
  lua_pushcfunction(L, concat);
  lua_pushcfunction(L, length);
  lua_pushcfunction(L, iterate);
}

void check_writable(lua_State* L, int index) {
  if (lua_type(L, index) == LUA_TTABLE) return;
  if (kind_of(L, index)) {
    luaL_argerror(L, index, "it is read-only; make a table of your own");
  }
  luaL_checktype(L, index, LUA_TTABLE);
}

void push_list(lua_State* L, int index) {
  if (!push_plain(L, index)) luaL_typeerror(L, index, "table");
}

void check_string_size(lua_State* L, std::size_t bytes) {
  const std::size_t longest = evaluation::of(L).limits().string_bytes;
  if (bytes > longest) {
    luaL_error(L, "a string of %d bytes is longer than the %d that policies may use",
               static_cast<int>(std::min<std::size_t>(bytes, INT_MAX)), static_cast<int>(longest));
  }
  charge(L, 1 + static_cast<std::int64_t>(bytes / bytes_per_unit));
}

}  // namespace terrane::policies::lua
