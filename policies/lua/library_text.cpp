// How values are written: one text for each, in every process and on every machine. No address is
// ever printed.
#include <cmath>
#include <cstdio>
#include <cstring>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {

// Fourteen digits as Lua writes them; ".0" marks a whole number that is a float. The sign of a
// not-a-number depends on the processor and is left out.
std::size_t write_number(lua_State* L, int index, char* text) {
  if (lua_isinteger(L, index)) {
    const long long value = lua_tointeger(L, index);
    return static_cast<std::size_t>(std::snprintf(text, number_text_bytes, "%lld", value));
  }
  const double value = lua_tonumber(L, index);
  if (std::isnan(value)) return static_cast<std::size_t>(std::snprintf(text, 4, "nan"));
  int size = std::snprintf(text, number_text_bytes, "%.14g", value);
  if (text[std::strspn(text, "-0123456789")] == '\0') {
    text[size++] = '.';
    text[size++] = '0';
    text[size] = '\0';
  }
  return static_cast<std::size_t>(size);
}

std::string_view check_text(lua_State* L, int index) {
  const int at = lua_absindex(L, index);
  if (lua_type(L, at) == LUA_TNUMBER) {
    push_text(L, at);
    lua_replace(L, at);
  }
  if (lua_type(L, at) != LUA_TSTRING) luaL_typeerror(L, at, "string");
  std::size_t size = 0;
  const char* const text = lua_tolstring(L, at, &size);
  return {text, size};
}

namespace {

// Pushes what a __tostring or to_string gives, if the value has one.
bool push_own_text(lua_State* L, int at) {
  if (const object_class* const kind = kind_of(L, at)) {
    if (!kind->to_string) return false;
    lua_pushcfunction(L, kind->to_string);
  } else if (lua_type(L, at) != LUA_TTABLE || luaL_getmetafield(L, at, "__tostring") == LUA_TNIL) {
    return false;
  }
  lua_pushvalue(L, at);
  lua_call(L, 1, 1);
  if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "'__tostring' must return a string");
  return true;
}

}  // namespace

void push_text(lua_State* L, int index) {
  const int at = lua_absindex(L, index);
  luaL_checkstack(L, 4, nullptr);
  switch (lua_type(L, at)) {
    case LUA_TNUMBER: {
      char text[number_text_bytes];
      lua_pushlstring(L, text, write_number(L, at, text));
      return;
    }
    case LUA_TSTRING:
      lua_pushvalue(L, at);
      return;
    case LUA_TBOOLEAN:
      lua_pushstring(L, lua_toboolean(L, at) ? "true" : "false");
      return;
    default:
      if (!push_own_text(L, at)) lua_pushstring(L, type_name(L, at));
  }
}

}  // namespace terrane::policies::lua
