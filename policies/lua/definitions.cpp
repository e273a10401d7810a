#include "policies/lua/definitions.hpp"

#include <algorithm>

#include <lauxlib.h>
#include <lua.h>

#include "policies/rule/lint.hpp"
#include "policies/vocabulary/lua_words.hpp"
#include "policies/vocabulary/metric_value.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::lua {
namespace {

int detector_index(lua_State* L);
const object_class detector_class = {"condition", guarded<detector_index>};

std::string text_at(lua_State* L, int index) {
  std::size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

std::int64_t duration_at(lua_State* L, int index) {
  const parsed<std::int64_t> ms = parse_duration_ms(text_at(L, index));
  if (!ms) luaL_error(L, "%s", ms.error().c_str());
  return *ms;
}

// condition:held "5s": a new condition that must be met for so long.
int held(lua_State* L) {
  detector d = check_object<detector>(L, 1, detector_class);
  const std::int64_t ms = duration_at(L, 2);
  // The hold of a single comparison is its own, as in YAML.
  (d.value.terms.size() == 1 ? d.value.terms.front().held_ms : d.value.held_ms) = ms;
  d.held_given = true;
  push_object(L, detector_class, std::move(d));
  return 1;
}

int detector_index(lua_State* L) {
  const std::string key = text_at(L, 2);
  if (key != "held") {
    const std::string hint = name_hint(key, member_names(lua_object::condition));
    luaL_error(L, "a condition has no '%s'%s", key.c_str(), hint.c_str());
  }
  lua_pushcfunction(L, guarded<held>);
  return 1;
}

double limit_at(lua_State* L, int index, const metric_entry& m) {
  std::string written;
  if (lua_type(L, index) == LUA_TNUMBER) {
    const double number = lua_tonumber(L, index);
    const bool fits = number >= 0 && (m.measured_in != unit::ratio || number <= 1);
    if (fits) return number;
    luaL_error(L, "%f is no limit for %s, which is %s", number, m.name.data(),
               m.measured_in != unit::ratio ? "never negative"
               : may_pass_the_whole(m)      ? "from 0 to 1, or with its sign, as \"105%\""
                                            : "from 0 to 1 (or write \"92%\")");
  }
  const parsed<double> value = parse_value(text_at(L, index), m);
  if (!value) luaL_error(L, "%s", value.error().c_str());
  return *value;
}

// The limit of a comparison, whatever suits the metric: a number or a text, a truth, a range.
void read_limit(lua_State* L, const metric_entry& m, term& into) {
  if (!suits(into.compare, m.measured_in)) {
    luaL_error(L, "%s", unsuited_text(m.id, into.compare).c_str());
  }
  if (into.compare == comparison::is) {
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TBOOLEAN);
    into.limit = lua_isnoneornil(L, 2) || lua_toboolean(L, 2) != 0 ? 1 : 0;
    return;
  }
  if (into.compare == comparison::above || into.compare == comparison::below) {
    into.limit = limit_at(L, 2, m);
    return;
  }
  const parsed<quantity_range> range = parse_range(text_at(L, 2), m.measured_in);
  if (!range) luaL_error(L, "%s", range.error().c_str());
  into.limit = range->from;
  into.upper = range->to;
}

int compare(lua_State* L, comparison how) {
  const std::string name = text_at(L, 1);
  const metric_entry* m = find_metric(name);
  if (m == nullptr) {
    const std::string hint = name_hint(name, metric_names());
    luaL_error(L, "there is no metric '%s'%s", name.c_str(), hint.c_str());
  }
  detector d;
  d.value.where = current_place(L);
  term t{m->id, how, 0, 0, 0, d.value.where};
  read_limit(L, *m, t);
  d.value.terms.push_back(std::move(t));
  push_object(L, detector_class, std::move(d));
  return 1;
}

int combine(lua_State* L, combination how, const char* name) {
  if (!push_plain(L, 1)) luaL_error(L, "%s takes a list of conditions in braces", name);
  const std::int64_t count = border(L, -1);
  if (count < 1 || count > static_cast<std::int64_t>(max_terms)) {
    luaL_error(L, "%s takes 1 to %d conditions", name, static_cast<int>(max_terms));
  }
  detector all;
  all.value.how = how;
  all.value.where = current_place(L);
  for (std::int64_t i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    const detector* one = detector_at(L, -1);
    if (one == nullptr || one->value.terms.size() != 1) {
      luaL_error(L, "item %d of %s is no single condition, above(...) or below(...)",
                 static_cast<int>(i), name);
    }
    all.value.terms.push_back(one->value.terms.front());
    all.held_given = all.held_given || one->held_given;
    lua_pop(L, 1);
  }
  push_object(L, detector_class, std::move(all));
  return 1;
}

int all_of(lua_State* L) { return combine(L, combination::all_of, "all_of"); }
int any_of(lua_State* L) { return combine(L, combination::any_of, "any_of"); }

void define_units(lua_State* L) {
  for (const unit_entry& u : units()) {
    if (!has_function(u)) continue;
    const double factor = u.factor;
    push_function(L, [factor](lua_State* S) {
      lua_pushnumber(S, luaL_checknumber(S, 1) * factor);
      return 1;
    });
    lua_setglobal(L, std::string(u.symbol).c_str());
  }
}

}  // namespace

const detector* detector_at(lua_State* L, int index) {
  if (!is_object(L, index, detector_class)) return nullptr;
  return &check_object<detector>(L, index, detector_class);
}

void define_words(lua_State* L, policy_callback on_policy) {
  for (const word<comparison>& w : comparisons()) {
    push_function(L, [how = w.value](lua_State* S) { return compare(S, how); });
    lua_setglobal(L, w.name.data());
  }
  lua_pushcfunction(L, guarded<all_of>);
  lua_setglobal(L, "all_of");
  lua_pushcfunction(L, guarded<any_of>);
  lua_setglobal(L, "any_of");
  define_units(L);
  push_function(L, [on_policy = std::move(on_policy)](lua_State* S) {
    const std::string name = text_at(S, 1);
    push_function(S, [on_policy, name](lua_State* inner) {
      if (!push_plain(inner, 1)) {
        luaL_error(inner, "policy \"%s\" must be followed by a table in braces", name.c_str());
      }
      on_policy(inner, name);
      lua_settop(inner, 0);
      return 0;
    });
    return 1;
  });
  lua_setglobal(L, "policy");
}

}  // namespace terrane::policies::lua
