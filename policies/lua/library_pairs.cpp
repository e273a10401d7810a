// pairs and next in one order: numbers, then strings, then booleans, each rising. Lua's own order
// depends on addresses and on a random seed. Keys of other types have no order and are refused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

enum class key_type : std::uint8_t { integer, fraction, text, boolean };

// A key outside Lua. Its text lives as long as its table holds it.
struct key {
  union {
    std::int64_t integer;
    double fraction;
    const char* text;
  };
  std::uint32_t size = 0;  // of the text
  key_type type = key_type::integer;

  std::string_view view() const { return {text, size}; }
};

// By value, a float that Lua keeps as key having no integer value.
bool number_before(const key& a, const key& b) {
  const bool a_whole = a.type == key_type::integer;
  const bool b_whole = b.type == key_type::integer;
  if (a_whole && b_whole) return a.integer < b.integer;
  if (!a_whole && !b_whole) return a.fraction < b.fraction;
  const double fraction = a_whole ? b.fraction : a.fraction;
  bool whole_first = fraction > 0;  // beyond all integers
  if (fraction >= -0x1p63 && fraction < 0x1p63) {
    const std::int64_t whole = a_whole ? a.integer : b.integer;
    whole_first = whole <= static_cast<std::int64_t>(std::floor(fraction));
  }
  return whole_first == a_whole;
}

bool comes_before(const key& a, const key& b) {
  const auto group = [](const key& k) {
    return k.type == key_type::integer ? key_type::fraction : k.type;
  };
  if (group(a) != group(b)) return group(a) < group(b);
  switch (a.type) {
    case key_type::text:
      return a.view() < b.view();
    case key_type::boolean:
      return a.integer < b.integer;
    default:
      return number_before(a, b);
  }
}

key read_key(lua_State* L, int index) {
  key k;
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      if (int whole = 0; k.integer = lua_tointegerx(L, index, &whole), whole) return k;
      k.fraction = lua_tonumber(L, index);
      k.type = key_type::fraction;
      return k;
    case LUA_TSTRING: {
      std::size_t size = 0;
      k.text = lua_tolstring(L, index, &size);
      k.size = static_cast<std::uint32_t>(size);
      k.type = key_type::text;
      return k;
    }
    case LUA_TBOOLEAN:
      k.integer = lua_toboolean(L, index);
      k.type = key_type::boolean;
      return k;
    default:
      luaL_error(L, "a table with a %s as key has no order to walk it in", type_name(L, index));
      return k;
  }
}

void push_key(lua_State* L, const key& k) {
  switch (k.type) {
    case key_type::integer:
      return lua_pushinteger(L, k.integer);
    case key_type::fraction:
      return lua_pushnumber(L, k.fraction);
    case key_type::text:
      lua_pushlstring(L, k.text, k.size);
      return;
    case key_type::boolean:
      return lua_pushboolean(L, static_cast<int>(k.integer));
  }
}

// Whether the keys of the table at `table` are exactly 1 to `size`.
bool is_sequence(lua_State* L, int table, lua_Integer size) {
  lua_Integer count = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    int whole = 0;
    const lua_Integer i = lua_isinteger(L, -1) ? lua_tointegerx(L, -1, &whole) : 0;
    if (++count > size || !whole || i < 1 || i > size) {
      lua_pop(L, 1);
      return false;
    }
  }
  return count == size;
}

// Pushes a list of the keys of the table at `table`, in order; returns how many.
lua_Integer push_sorted_keys(lua_State* L, int table) {
  std::vector<key> keys;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    charge(L, 6);  // its share of the sorting included
    lua_pop(L, 1);
    keys.push_back(read_key(L, -1));
  }
  std::sort(keys.begin(), keys.end(), comes_before);
  const auto count = static_cast<lua_Integer>(keys.size());
  lua_createtable(L, static_cast<int>(count), 0);
  for (lua_Integer i = 0; i < count; ++i) {
    push_key(L, keys[static_cast<std::size_t>(i)]);
    lua_rawseti(L, -2, i + 1);
  }
  return count;
}

// The iterator. Upvalues: the table, how many items it has, the position, the list of keys (nil
// when they are 1 to the count). Items that have gone in the meantime are left out.
constexpr int table_upvalue = lua_upvalueindex(1);
constexpr int count_upvalue = lua_upvalueindex(2);
constexpr int position_upvalue = lua_upvalueindex(3);
constexpr int keys_upvalue = lua_upvalueindex(4);

int next_pair(lua_State* L) {
  const lua_Integer count = lua_tointeger(L, count_upvalue);
  lua_Integer at = lua_tointeger(L, position_upvalue);
  bool found = false;
  while (at < count && !found) {
    charge(L, 1);
    ++at;
    lua_settop(L, 0);
    if (lua_isnil(L, keys_upvalue)) {
      lua_pushinteger(L, at);
    } else {
      lua_rawgeti(L, keys_upvalue, at);
    }
    lua_pushvalue(L, 1);
    found = lua_rawget(L, table_upvalue) != LUA_TNIL;
  }
  lua_pushinteger(L, at);
  lua_replace(L, position_upvalue);
  return found ? 2 : 0;
}

// Pushes what the value's own way of walking gives, for __pairs and host objects that have it.
bool push_own_pairs(lua_State* L) {
  if (const object_class* const kind = kind_of(L, 1); kind && kind->pairs) {
    lua_pushcfunction(L, kind->pairs);
  } else if (lua_type(L, 1) != LUA_TTABLE || luaL_getmetafield(L, 1, "__pairs") == LUA_TNIL) {
    return false;
  }
  lua_pushvalue(L, 1);
  lua_call(L, 1, 3);
  return true;
}

}  // namespace

int base_pairs(lua_State* L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  if (push_own_pairs(L)) return 3;
  push_list(L, 1);
  const lua_Integer size = border(L, 2);
  charge(L, 1 + size / 2);
  lua_Integer count = size;
  if (is_sequence(L, 2, size)) {
    lua_pushnil(L);
  } else {
    count = push_sorted_keys(L, 2);
  }
  lua_pushinteger(L, count);
  lua_pushinteger(L, 0);
  lua_rotate(L, 3, 2);
  lua_pushcclosure(L, next_pair, 4);  // it alone holds the table that a view shows
  lua_pushvalue(L, 1);
  return 2;
}

// Looks through the whole table at each call: pairs is faster for walking it.
int base_next(lua_State* L) {
  push_list(L, 1);
  lua_replace(L, 1);
  lua_settop(L, 2);
  const std::optional<key> after = lua_isnil(L, 2) ? std::nullopt : std::optional(read_key(L, 2));
  std::optional<key> best;
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    charge(L, 1);
    lua_pop(L, 1);
    const key found = read_key(L, -1);
    if (after && !comes_before(*after, found)) continue;
    if (!best || comes_before(found, *best)) best = found;
  }
  if (!best) {
    lua_pushnil(L);
    return 1;
  }
  push_key(L, *best);
  lua_pushvalue(L, -1);
  lua_rawget(L, 1);
  return 2;
}

}  // namespace terrane::policies::lua
