// Mathematical functions: section 6.7 of Lua's manual, as far as they give the same bits
// everywhere.
#include <cmath>
#include <limits>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/library_power.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

constexpr std::int64_t series_cost = 32;  // of exp and log, in instructions

// Pushes a whole float as an integer if it fits, as math.floor does.
void push_whole(lua_State* L, double value) {
  lua_Integer whole = 0;
  if (lua_numbertointeger(value, &whole)) {
    lua_pushinteger(L, whole);
  } else {
    lua_pushnumber(L, value);
  }
}

int math_abs(lua_State* L) {
  if (lua_isinteger(L, 1)) {
    const auto value = static_cast<lua_Unsigned>(lua_tointeger(L, 1));
    lua_pushinteger(L, static_cast<lua_Integer>(lua_tointeger(L, 1) < 0 ? 0 - value : value));
  } else {
    lua_pushnumber(L, std::fabs(luaL_checknumber(L, 1)));
  }
  return 1;
}

int math_ceil(lua_State* L) {
  if (lua_isinteger(L, 1)) {
    lua_settop(L, 1);
  } else {
    push_whole(L, std::ceil(luaL_checknumber(L, 1)));
  }
  return 1;
}

int math_floor(lua_State* L) {
  if (lua_isinteger(L, 1)) {
    lua_settop(L, 1);
  } else {
    push_whole(L, std::floor(luaL_checknumber(L, 1)));
  }
  return 1;
}

int math_fmod(lua_State* L) {
  if (lua_isinteger(L, 1) && lua_isinteger(L, 2)) {
    const lua_Integer divisor = lua_tointeger(L, 2);
    luaL_argcheck(L, divisor != 0, 2, "zero");
    // The smallest integer divided by -1 overflows.
    lua_pushinteger(L, divisor == -1 ? 0 : lua_tointeger(L, 1) % divisor);
  } else {
    lua_pushnumber(L, std::fmod(luaL_checknumber(L, 1), luaL_checknumber(L, 2)));
  }
  return 1;
}

int math_modf(lua_State* L) {
  const double value = luaL_checknumber(L, 1);
  const double whole = std::trunc(value);
  lua_pushnumber(L, whole);
  lua_pushnumber(L, std::isinf(value) ? 0.0 : value - whole);
  return 2;
}

int math_sqrt(lua_State* L) {
  lua_pushnumber(L, std::sqrt(luaL_checknumber(L, 1)));  // correctly rounded by IEEE 754
  return 1;
}

int math_exp(lua_State* L) {
  charge(L, series_cost);
  lua_pushnumber(L, exact_exp(luaL_checknumber(L, 1)));
  return 1;
}

int math_log(lua_State* L) {
  const double value = luaL_checknumber(L, 1);
  charge(L, series_cost);
  if (lua_isnoneornil(L, 2)) {
    lua_pushnumber(L, exact_log(value));
  } else if (const double base = luaL_checknumber(L, 2); base == 2) {
    lua_pushnumber(L, exact_log2(value));
  } else {
    lua_pushnumber(L, exact_log2(value) / exact_log2(base));
  }
  return 1;
}

// The argument that comes last in the order, the first of equals.
int extreme(lua_State* L, bool largest) {
  const int count = lua_gettop(L);
  int best = 1;
  charge(L, count / 4);
  luaL_checknumber(L, 1);
  for (int i = 2; i <= count; ++i) {
    luaL_checknumber(L, i);
    const bool better =
        largest ? lua_compare(L, best, i, LUA_OPLT) : lua_compare(L, i, best, LUA_OPLT);
    if (better) best = i;
  }
  lua_pushvalue(L, best);
  return 1;
}

int math_max(lua_State* L) { return extreme(L, true); }
int math_min(lua_State* L) { return extreme(L, false); }

int math_tointeger(lua_State* L) {
  luaL_checkany(L, 1);
  int exact = 0;
  const lua_Integer value = lua_type(L, 1) == LUA_TNUMBER ? lua_tointegerx(L, 1, &exact) : 0;
  if (exact) {
    lua_pushinteger(L, value);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

int math_type(lua_State* L) {
  luaL_checkany(L, 1);
  if (lua_type(L, 1) == LUA_TNUMBER) {
    lua_pushstring(L, lua_isinteger(L, 1) ? "integer" : "float");
  } else {
    lua_pushnil(L);
  }
  return 1;
}

int math_ult(lua_State* L) {
  const auto left = static_cast<lua_Unsigned>(luaL_checkinteger(L, 1));
  lua_pushboolean(L, left < static_cast<lua_Unsigned>(luaL_checkinteger(L, 2)));
  return 1;
}

}  // namespace

const luaL_Reg math_functions[] = {{"abs", math_abs},
                                   {"ceil", math_ceil},
                                   {"exp", math_exp},
                                   {"floor", math_floor},
                                   {"fmod", math_fmod},
                                   {"log", math_log},
                                   {"max", math_max},
                                   {"min", math_min},
                                   {"modf", math_modf},
                                   {"sqrt", math_sqrt},
                                   {"tointeger", math_tointeger},
                                   {"type", math_type},
                                   {"ult", math_ult},
                                   {nullptr, nullptr}};

}  // namespace terrane::policies::lua
