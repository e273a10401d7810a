#include "policies/lua/sandbox_binding.hpp"

#include <algorithm>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_evaluation.hpp"

namespace terrane::policies::lua {
namespace {

// Keys of the registry and of metatables. Their addresses are the keys.
const char kind_key = 0;

struct object_header {
  void (*destroy)(void*) = nullptr;
};
constexpr std::size_t payload_offset = alignof(std::max_align_t);
static_assert(sizeof(object_header) <= payload_offset);

void* payload_of(void* memory) { return static_cast<std::byte*>(memory) + payload_offset; }

int destroy_object(lua_State* L) {
  auto* const header = static_cast<object_header*>(lua_touserdata(L, 1));
  if (auto* const destroy = std::exchange(header->destroy, nullptr)) destroy(payload_of(header));
  return 0;
}

int refuse_assignment(lua_State* L) {
  return luaL_error(L, "cannot assign to a %s: it is read-only", type_name(L, 1));
}

// A view's one user value is the table it shows.
int index_view(lua_State* L) {
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  return 1;
}

const object_class view_kind = {.name = "table", .index = index_view};

using closure = std::function<int(lua_State*)>;

int call_closure(lua_State* L) {
  return (*static_cast<closure*>(payload_of(lua_touserdata(L, lua_upvalueindex(1)))))(L);
}

const object_class closure_kind = {.name = "function", .index = nullptr};

void set_method(lua_State* L, const char* name, native_function function) {
  if (!function) return;
  lua_pushcfunction(L, function);
  lua_setfield(L, -2, name);
}

// Pushes the metatable of a class, made at its first use in this state.
void push_metatable(lua_State* L, const object_class& kind) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kind) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 10);
  lua_pushlightuserdata(L, const_cast<object_class*>(&kind));
  lua_rawsetp(L, -2, &kind_key);
  lua_pushstring(L, kind.name);
  lua_setfield(L, -2, "__name");  // what Lua's own errors call the type
  set_method(L, "__index", kind.index);
  set_method(L, "__newindex", refuse_assignment);
  set_method(L, "__call", kind.call);
  set_method(L, "__eq", kind.equal);
  set_method(L, "__gc", destroy_object);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kind);
}

void* push_memory(lua_State* L, const object_class& kind, std::size_t bytes, int user_values,
                  void (*destroy)(void*)) {
  push_metatable(L, kind);
  auto* const header =
      new (lua_newuserdatauv(L, payload_offset + bytes, user_values)) object_header{nullptr};
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  header->destroy = destroy;
  return payload_of(header);
}

}  // namespace

const object_class* kind_of(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index)) return nullptr;
  lua_rawgetp(L, -1, &kind_key);
  const auto* const kind = static_cast<const object_class*>(lua_touserdata(L, -1));
  lua_pop(L, 2);
  return kind;
}

void push_function(lua_State* L, closure function) {
  new (push_memory(L, closure_kind, sizeof(closure), 0, [](void* memory) {
    std::destroy_at(static_cast<closure*>(memory));
  })) closure(std::move(function));
  lua_pushcclosure(L, guarded<call_closure>, 1);
}

int raise_exception(lua_State* L, const char* what) {
  evaluation::of(L).stop_for_host_failure(L, what);
  return 0;
}

void make_readonly(lua_State* L) {
  luaL_checktype(L, -1, LUA_TTABLE);
  push_memory(L, view_kind, 0, 1, nullptr);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
}

void* push_object_memory(lua_State* L, const object_class& kind, std::size_t bytes,
                         void (*destroy)(void*)) {
  return push_memory(L, kind, bytes, 0, destroy);
}

void* check_object_memory(lua_State* L, int index, const object_class& kind) {
  if (!is_object(L, index, kind)) luaL_typeerror(L, index, kind.name);
  return payload_of(lua_touserdata(L, index));
}

bool is_object(lua_State* L, int index, const object_class& kind) {
  return kind_of(L, index) == &kind;
}

void charge(lua_State* L, std::int64_t units) { evaluation::of(L).charge(L, units); }

kept_value keep(lua_State* L) { return {luaL_ref(L, LUA_REGISTRYINDEX)}; }

void push_kept(lua_State* L, kept_value value) { lua_rawgeti(L, LUA_REGISTRYINDEX, value.slot); }

source_location current_place(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && *frame.source == '@') {
      return {frame.source + 1, frame.currentline, 0};
    }
  }
  return {};
}

bool push_plain(lua_State* L, int index) {
  if (lua_type(L, index) == LUA_TTABLE) {
    lua_pushvalue(L, index);
    return true;
  }
  if (kind_of(L, index) != &view_kind) return false;
  lua_getiuservalue(L, index, 1);
  return true;
}

// Doubles until a missing item, then halves: looks at the contents only. Lua's own border depends
// on how the table is laid out, and so on where its strings happen to hash.
std::int64_t border(lua_State* L, int index) {
  if (!push_plain(L, index)) return 0;
  const auto has = [L](std::int64_t i) {
    const bool found = lua_rawgeti(L, -1, i) != LUA_TNIL;
    lua_pop(L, 1);
    return found;
  };
  constexpr std::int64_t beyond_any_list = std::int64_t{1} << 40;
  std::int64_t present = 0;
  std::int64_t missing = 1;
  while (missing < beyond_any_list && has(missing)) {
    present = missing;
    missing *= 2;
  }
  while (missing - present > 1) {
    const std::int64_t middle = present + (missing - present) / 2;
    (has(middle) ? present : missing) = middle;
  }
  lua_pop(L, 1);
  return present;
}

const char* type_name(lua_State* L, int index) {
  if (const object_class* const kind = kind_of(L, index)) return kind->name;
  return lua_typename(L, lua_type(L, index));
}

}  // namespace terrane::policies::lua
