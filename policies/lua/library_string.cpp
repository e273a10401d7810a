// String functions: section 6.4 of Lua's manual without patterns, rep, dump, pack and unpack. Bytes
// and ASCII only, whatever the locale.
#include <algorithm>
#include <cstring>
#include <string_view>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

constexpr lua_Integer most_bytes = 250;  // string.byte's results, as table.unpack's

// A text argument, its reading charged for.
std::string_view text_argument(lua_State* L, int index) {
  const std::string_view text = check_text(L, index);
  charge(L, 1 + static_cast<std::int64_t>(text.size() / 64));
  return text;
}

// Lua's positions count from 1, or from the end when negative.
lua_Integer position(lua_Integer p, std::size_t size) {
  const auto end = static_cast<lua_Integer>(size);
  if (p >= 0) return p;
  return p < -end ? 0 : end + p + 1;
}

struct range {
  lua_Integer first = 1;
  lua_Integer last = 0;
};

range checked_range(lua_State* L, std::size_t size, int index, lua_Integer first,
                    lua_Integer last) {
  range r;
  r.first = std::max<lua_Integer>(1, position(luaL_optinteger(L, index, first), size));
  r.last = std::min(static_cast<lua_Integer>(size),
                    position(luaL_optinteger(L, index + 1, last < 0 ? last : r.first), size));
  return r;
}

int string_byte(lua_State* L) {
  const std::string_view text = text_argument(L, 1);
  const range r = checked_range(L, text.size(), 2, 1, 0);
  if (r.first > r.last) return 0;
  const lua_Integer count = r.last - r.first + 1;
  if (count > most_bytes) return luaL_error(L, "string.byte gives at most 250 values");
  luaL_checkstack(L, static_cast<int>(count), nullptr);
  for (lua_Integer i = r.first; i <= r.last; ++i) {
    lua_pushinteger(L, static_cast<unsigned char>(text[static_cast<std::size_t>(i - 1)]));
  }
  return static_cast<int>(count);
}

int string_char(lua_State* L) {
  const int count = lua_gettop(L);
  charge(L, 1 + count / 16);
  luaL_Buffer made;
  char* const out = luaL_buffinitsize(L, &made, static_cast<std::size_t>(count));
  for (int i = 1; i <= count; ++i) {
    const auto code = static_cast<lua_Unsigned>(luaL_checkinteger(L, i));
    luaL_argcheck(L, code <= 255, i, "value out of range");
    out[i - 1] = static_cast<char>(code);
  }
  luaL_pushresultsize(&made, static_cast<std::size_t>(count));
  return 1;
}

// Plain search. A text that would mean something else as a pattern needs `true` as fourth argument,
// so that code written for Lua's own find is not silently misunderstood.
int string_find(lua_State* L) {
  const std::string_view text = text_argument(L, 1);
  const std::string_view wanted = text_argument(L, 2);
  const lua_Integer first =
      std::max<lua_Integer>(1, position(luaL_optinteger(L, 3, 1), text.size()));
  if (!lua_toboolean(L, 4) && wanted.find_first_of("^$*+?.([%-") != std::string_view::npos) {
    return luaL_argerror(L, 2,
                         "patterns are not available: pass true as fourth argument to find "
                         "the text itself");
  }
  const auto skipped = static_cast<std::size_t>(first - 1);
  const void* const found =
      skipped > text.size()
          ? nullptr
          : memmem(text.data() + skipped, text.size() - skipped, wanted.data(), wanted.size());
  if (!found) {
    lua_pushnil(L);
    return 1;
  }
  const auto begin = static_cast<const char*>(found) - text.data();
  lua_pushinteger(L, begin + 1);
  lua_pushinteger(L, begin + static_cast<lua_Integer>(wanted.size()));
  return 2;
}

int string_len(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(check_text(L, 1).size()));
  return 1;
}

// Pushes the text with each byte mapped.
template <class Map>
int mapped(lua_State* L, Map map) {
  const std::string_view text = text_argument(L, 1);
  luaL_Buffer made;
  char* const out = luaL_buffinitsize(L, &made, text.size());
  std::transform(text.begin(), text.end(), out, map);
  luaL_pushresultsize(&made, text.size());
  return 1;
}

int string_lower(lua_State* L) {
  return mapped(L, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

int string_upper(lua_State* L) {
  return mapped(L, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
}

int string_reverse(lua_State* L) {
  const std::string_view text = text_argument(L, 1);
  luaL_Buffer made;
  char* const out = luaL_buffinitsize(L, &made, text.size());
  std::reverse_copy(text.begin(), text.end(), out);
  luaL_pushresultsize(&made, text.size());
  return 1;
}

int string_sub(lua_State* L) {
  const std::string_view text = text_argument(L, 1);
  luaL_checkinteger(L, 2);
  const range r = checked_range(L, text.size(), 2, 1, -1);
  if (r.first > r.last) {
    lua_pushliteral(L, "");
  } else {
    lua_pushlstring(L, text.data() + r.first - 1, static_cast<std::size_t>(r.last - r.first + 1));
  }
  return 1;
}

}  // namespace

const luaL_Reg string_functions[] = {{"byte", string_byte},       {"char", string_char},
                                     {"find", string_find},       {"format", string_format},
                                     {"len", string_len},         {"lower", string_lower},
                                     {"reverse", string_reverse}, {"sub", string_sub},
                                     {"upper", string_upper},     {nullptr, nullptr}};

}  // namespace terrane::policies::lua
