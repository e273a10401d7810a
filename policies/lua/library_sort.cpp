// table.sort as a merge sort: equal items keep their order, the comparisons made depend on the
// items only (Lua's own draws pivots from the clock), and a comparison function that contradicts
// itself gives some order, never an invalid index. The list changes at the end only: an error
// leaves it whole.
#include <algorithm>
#include <utility>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

constexpr int list = 1;
constexpr int comparison = 2;
constexpr int right_item = -1;
constexpr int left_item = -2;

void check_comparable(lua_State* L) {
  const int left = lua_type(L, left_item);
  const int right = lua_type(L, right_item);
  if (left == right && (left == LUA_TNUMBER || left == LUA_TSTRING)) return;
  if (luaL_getmetafield(L, left_item, "__lt") != LUA_TNIL) return lua_pop(L, 1);
  luaL_error(L, "attempt to compare a %s with a %s value in 'sort'", type_name(L, left_item),
             type_name(L, right_item));
}

// Whether the item on top of the stack comes before the one below it.
bool right_is_first(lua_State* L) {
  charge(L, 1);
  if (lua_isnil(L, comparison)) {
    check_comparable(L);
    return lua_compare(L, right_item, left_item, LUA_OPLT) != 0;
  }
  lua_pushvalue(L, comparison);
  lua_pushvalue(L, right_item - 1);
  lua_pushvalue(L, left_item - 2);
  lua_call(L, 2, 1);
  const bool first = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return first;
}

// Merges items [begin, middle) and [middle, end) of table `from` into table `to`.
void merge(lua_State* L, int from, int to, lua_Integer begin, lua_Integer middle, lua_Integer end) {
  lua_Integer left = begin;
  lua_Integer right = middle;
  for (lua_Integer out = begin; out < end; ++out) {
    if (left < middle && right < end) {
      lua_rawgeti(L, from, left);
      lua_rawgeti(L, from, right);
      const bool take_right = right_is_first(L);
      lua_pop(L, 2);
      lua_rawgeti(L, from, take_right ? right++ : left++);
    } else {
      lua_rawgeti(L, from, left < middle ? left++ : right++);
    }
    lua_rawseti(L, to, out);
  }
}

void copy(lua_State* L, int from, int to, lua_Integer count) {
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, from, i);
    lua_rawseti(L, to, i);
  }
}

}  // namespace

int table_sort(lua_State* L) {
  check_writable(L, list);
  if (!lua_isnoneornil(L, comparison)) luaL_checktype(L, comparison, LUA_TFUNCTION);
  lua_settop(L, 2);
  const lua_Integer count = border(L, list);
  charge(L, count);
  lua_createtable(L, static_cast<int>(count), 0);
  lua_createtable(L, static_cast<int>(count), 0);
  int from = 3;
  int to = 4;
  copy(L, list, from, count);
  for (lua_Integer width = 1; width < count; width *= 2) {
    for (lua_Integer begin = 1; begin <= count; begin += 2 * width) {
      const lua_Integer end = std::min(begin + 2 * width, count + 1);
      merge(L, from, to, begin, std::min(begin + width, end), end);
    }
    std::swap(from, to);
  }
  copy(L, from, list, count);
  return 0;
}

}  // namespace terrane::policies::lua
