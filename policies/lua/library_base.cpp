// The basic functions: section 6.1 of Lua's manual.
#include <cctype>
#include <string_view>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"
#include "policies/lua/sandbox_evaluation.hpp"

namespace terrane::policies::lua {
namespace {

int base_assert(lua_State* L) {
  luaL_checkany(L, 1);
  if (lua_toboolean(L, 1)) return lua_gettop(L);
  if (lua_gettop(L) == 1) return luaL_error(L, "assertion failed!");
  lua_settop(L, 2);
  return lua_error(L);
}

int base_error(lua_State* L) {
  const int level = static_cast<int>(luaL_optinteger(L, 2, 1));
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING && level > 0) {
    luaL_where(L, level);
    lua_pushvalue(L, 1);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

constexpr std::int64_t catching_cost = 32;  // of an error, in instructions

// Passes on what a protected call cannot catch: a script that has been stopped, and exceptions that
// are not Lua's.
void pass_on(lua_State* L, int status) {
  evaluation::of(L).raise_if_stopped(L);
  if (status != LUA_OK && status != LUA_ERRRUN && status != LUA_ERRERR) {
    evaluation::of(L).stop_for_host_failure(L, "host code raised an unknown exception");
  }
}

int base_pcall(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  const int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  pass_on(L, status);
  if (status == LUA_OK) return lua_gettop(L);
  charge(L, catching_cost);
  lua_pushboolean(L, 0);
  lua_pushvalue(L, -2);
  return 2;
}

// The handler runs after the stack has unwound: there is no traceback to take, and nothing of the
// script then runs inside the raising of an error. An error of the handler takes the first's place.
int base_xpcall(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  const int status = lua_pcall(L, lua_gettop(L) - 4, LUA_MULTRET, 0);
  pass_on(L, status);
  if (status == LUA_OK) return lua_gettop(L) - 2;
  charge(L, catching_cost);
  lua_pushboolean(L, 0);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -3);
  pass_on(L, lua_pcall(L, 1, 1, 0));
  return 2;
}

int next_item(lua_State* L) {
  const lua_Integer i = luaL_checkinteger(L, 2);
  if (i == LUA_MAXINTEGER) return 0;
  lua_pushinteger(L, i + 1);
  return lua_geti(L, 1, i + 1) == LUA_TNIL ? 1 : 2;
}

int base_ipairs(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushcfunction(L, next_item);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

int base_print(lua_State* L) {
  evaluation& self = evaluation::of(L);
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    push_text(L, i);
    const std::string_view text = check_text(L, -1);
    charge(L, 1 + static_cast<std::int64_t>(text.size() / 64));
    const std::size_t room = self.limits().printed_bytes - self.printed.size();
    self.printed.append(text.substr(0, room));
    if (self.printed.size() < self.limits().printed_bytes) self.printed += i < count ? '\t' : '\n';
    lua_pop(L, 1);
  }
  return 0;
}

int base_rawequal(lua_State* L) {
  luaL_checkany(L, 2);
  lua_pushboolean(L, lua_rawequal(L, 1, 2));
  return 1;
}

int base_rawget(lua_State* L) {
  push_list(L, 1);
  luaL_checkany(L, 2);
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

int base_rawlen(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushinteger(L, static_cast<lua_Integer>(lua_rawlen(L, 1)));
  } else {
    push_list(L, 1);
    lua_pushinteger(L, border(L, -1));
  }
  return 1;
}

int base_rawset(lua_State* L) {
  check_writable(L, 1);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 1;
}

int base_select(lua_State* L) {
  const int count = lua_gettop(L);
  if (lua_type(L, 1) == LUA_TSTRING && check_text(L, 1) == "#") {
    lua_pushinteger(L, count - 1);
    return 1;
  }
  lua_Integer first = luaL_checkinteger(L, 1);
  if (first < 0) first += count;
  luaL_argcheck(L, first >= 1, 1, "index out of range");
  return first >= count ? 0 : count - static_cast<int>(first);
}

// Metamethods that would run outside the budget or make results depend on when memory is
// collected. Adding one to a metatable later has no effect: __gc is looked at here only, nothing is
// collected, variables that close do not exist, and the sandbox's own functions ask for none of
// them.
constexpr const char* refused_metamethods[] = {"__gc", "__close", "__mode", "__len", "__metatable"};

int base_setmetatable(lua_State* L) {
  check_writable(L, 1);
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  for (const char* const name : refused_metamethods) {
    if (lua_isnil(L, 2)) break;
    lua_pushstring(L, name);
    if (lua_rawget(L, 2) != LUA_TNIL) {
      return luaL_error(L, "setmetatable: '%s' is not available in policies", name);
    }
    lua_pop(L, 1);
  }
  lua_setmetatable(L, 1);
  return 1;
}

// Only of tables: those of strings and of host objects are out of reach.
int base_getmetatable(lua_State* L) {
  luaL_checkany(L, 1);
  if (lua_type(L, 1) == LUA_TTABLE && lua_getmetatable(L, 1)) return 1;
  lua_pushnil(L);
  return 1;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \f\n\r\t\v";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Pushes the integer that a text writes in a base, wrapping around as Lua's does; false if it is
// none.
bool push_integer_in_base(lua_State* L, std::string_view text, int base) {
  text = without_blanks(text);
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return false;
  lua_Unsigned value = 0;
  for (const char c : text) {
    const int digit = digit_value(c);
    if (digit >= base) return false;
    value = value * static_cast<lua_Unsigned>(base) + static_cast<lua_Unsigned>(digit);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(negative ? 0 - value : value));
  return true;
}

int base_tonumber(lua_State* L) {
  if (lua_isnoneornil(L, 2)) {
    luaL_checkany(L, 1);
    if (lua_type(L, 1) == LUA_TNUMBER) {
      lua_settop(L, 1);
      return 1;
    }
    if (lua_type(L, 1) == LUA_TSTRING) {
      const std::string_view text = check_text(L, 1);
      charge(L, 1 + static_cast<std::int64_t>(text.size() / 8));
      if (lua_stringtonumber(L, text.data()) == text.size() + 1) return 1;
    }
  } else {
    const lua_Integer base = luaL_checkinteger(L, 2);
    luaL_checktype(L, 1, LUA_TSTRING);
    luaL_argcheck(L, base >= 2 && base <= 36, 2, "base out of range");
    const std::string_view text = check_text(L, 1);
    charge(L, 1 + static_cast<std::int64_t>(text.size() / 8));
    if (push_integer_in_base(L, text, static_cast<int>(base))) return 1;
  }
  lua_pushnil(L);
  return 1;
}

int base_tostring(lua_State* L) {
  luaL_checkany(L, 1);
  push_text(L, 1);
  return 1;
}

int base_type(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushstring(L, type_name(L, 1));
  return 1;
}

}  // namespace

const luaL_Reg base_functions[] = {{"assert", base_assert},
                                   {"error", base_error},
                                   {"getmetatable", base_getmetatable},
                                   {"ipairs", base_ipairs},
                                   {"next", base_next},
                                   {"pairs", base_pairs},
                                   {"pcall", base_pcall},
                                   {"print", base_print},
                                   {"rawequal", base_rawequal},
                                   {"rawget", base_rawget},
                                   {"rawlen", base_rawlen},
                                   {"rawset", base_rawset},
                                   {"select", base_select},
                                   {"setmetatable", base_setmetatable},
                                   {"tonumber", base_tonumber},
                                   {"tostring", base_tostring},
                                   {"type", base_type},
                                   {"xpcall", base_xpcall},
                                   {nullptr, nullptr}};

}  // namespace terrane::policies::lua
