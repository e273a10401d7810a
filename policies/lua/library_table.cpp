// List functions: section 6.6 of Lua's manual, on the items a list really has. They read and write
// without metamethods, take read-only views where they only read, and charge for each item.
#include <string>
#include <string_view>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

constexpr lua_Integer most_values = 250;     // that unpack gives; Lua passes them on its stack
constexpr lua_Integer most_moved = 1 << 20;  // beyond what any list can hold

void move_item(lua_State* L, int from, lua_Integer i, int to, lua_Integer j) {
  lua_rawgeti(L, from, i);
  lua_rawseti(L, to, j);
}

int table_insert(lua_State* L) {
  check_writable(L, 1);
  const lua_Integer end = border(L, 1) + 1;
  charge(L, 1);
  if (lua_gettop(L) == 2) {
    lua_rawseti(L, 1, end);
    return 0;
  }
  if (lua_gettop(L) != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  const lua_Integer at = luaL_checkinteger(L, 2);
  luaL_argcheck(L, at >= 1 && at <= end, 2, "position out of bounds");
  charge(L, end - at);
  for (lua_Integer i = end; i > at; --i) move_item(L, 1, i - 1, 1, i);
  lua_rawseti(L, 1, at);
  return 0;
}

int table_remove(lua_State* L) {
  check_writable(L, 1);
  const lua_Integer size = border(L, 1);
  const lua_Integer at = luaL_optinteger(L, 2, size);
  if (lua_gettop(L) > 1) {
    luaL_argcheck(L, (at >= 1 && at <= size + 1) || (at == 0 && size == 0), 2,
                  "position out of bounds");
  }
  charge(L, 1 + (size > at ? size - at : 0));
  lua_rawgeti(L, 1, at);
  for (lua_Integer i = at; i < size; ++i) move_item(L, 1, i + 1, 1, i);
  if (at >= 1 && at <= size) {
    lua_pushnil(L);
    lua_rawseti(L, 1, size);
  }
  return 1;
}

// Pushes item i of the list at `list` as a text.
std::string_view push_item_text(lua_State* L, int list, lua_Integer i) {
  const int type = lua_rawgeti(L, list, i);
  if (type != LUA_TSTRING && type != LUA_TNUMBER) {
    luaL_error(L, "invalid value (a %s value) at index %I in table for 'concat'", type_name(L, -1),
               static_cast<LUAI_UACINT>(i));
  }
  return check_text(L, -1);
}

int table_concat(lua_State* L) {
  lua_settop(L, 4);
  push_list(L, 1);
  const std::string_view separator = lua_isnil(L, 2) ? std::string_view() : check_text(L, 2);
  const lua_Integer first = luaL_optinteger(L, 3, 1);
  const lua_Integer last = lua_isnil(L, 4) ? border(L, 5) : luaL_checkinteger(L, 4);
  std::string joined;
  for (lua_Integer i = first; i <= last; ++i) {
    const std::string_view text = push_item_text(L, 5, i);
    check_string_size(L, text.size());
    joined += text;
    if (i < last) joined += separator;
    lua_pop(L, 1);
    if (joined.size() > most_moved || i == LUA_MAXINTEGER) break;
  }
  check_string_size(L, joined.size());
  lua_pushlstring(L, joined.data(), joined.size());
  return 1;
}

int table_pack(lua_State* L) {
  const int count = lua_gettop(L);
  charge(L, 1 + count);
  lua_createtable(L, count, 1);
  lua_insert(L, 1);
  for (int i = count; i >= 1; --i) lua_rawseti(L, 1, i);
  lua_pushinteger(L, count);
  lua_setfield(L, 1, "n");
  return 1;
}

int table_unpack(lua_State* L) {
  lua_settop(L, 3);
  push_list(L, 1);
  const lua_Integer first = luaL_optinteger(L, 2, 1);
  const lua_Integer last = lua_isnil(L, 3) ? border(L, 4) : luaL_checkinteger(L, 3);
  if (first > last) return 0;
  const lua_Unsigned count = static_cast<lua_Unsigned>(last) - static_cast<lua_Unsigned>(first);
  if (count >= static_cast<lua_Unsigned>(most_values)) {
    return luaL_error(L, "table.unpack gives at most 250 values");
  }
  charge(L, 1 + static_cast<lua_Integer>(count));
  luaL_checkstack(L, static_cast<int>(count) + 1, nullptr);
  for (lua_Unsigned i = 0; i <= count; ++i) {
    lua_rawgeti(L, 4, first + static_cast<lua_Integer>(i));
  }
  return static_cast<int>(count) + 1;
}

int table_move(lua_State* L) {
  lua_settop(L, 5);
  push_list(L, 1);  // at 6
  const lua_Integer first = luaL_checkinteger(L, 2);
  const lua_Integer last = luaL_checkinteger(L, 3);
  const lua_Integer to = luaL_checkinteger(L, 4);
  const int target = lua_isnil(L, 5) ? 1 : 5;
  check_writable(L, target);
  lua_pushvalue(L, target);
  if (first > last) return 1;
  const lua_Unsigned gap = static_cast<lua_Unsigned>(last) - static_cast<lua_Unsigned>(first);
  luaL_argcheck(L, gap < static_cast<lua_Unsigned>(most_moved), 3, "too many elements to move");
  const auto count = static_cast<lua_Integer>(gap) + 1;
  luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
  charge(L, count);
  const bool overlaps = to > first && to <= last && lua_rawequal(L, 6, target);
  for (lua_Integer i = 0; i < count; ++i) {
    const lua_Integer step = overlaps ? count - 1 - i : i;
    move_item(L, 6, first + step, target, to + step);
  }
  return 1;
}

}  // namespace

const luaL_Reg table_functions[] = {{"concat", table_concat}, {"insert", table_insert},
                                    {"move", table_move},     {"pack", table_pack},
                                    {"remove", table_remove}, {"sort", table_sort},
                                    {"unpack", table_unpack}, {nullptr, nullptr}};

}  // namespace terrane::policies::lua
