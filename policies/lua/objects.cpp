#include "policies/lua/objects.hpp"

#include <lauxlib.h>
#include <lua.h>

#include "policies/lua/selection.hpp"
#include "policies/planner/propose.hpp"
#include "policies/vocabulary/nearest.hpp"

namespace terrane::policies::lua {
namespace {

// What scripts hold: a pointer into the snapshot, and the snapshot.
template <class State>
struct view {
  const snapshot* now;
  const State* state;
};
using device_view = view<device_state>;
using part_view = view<part_state>;
using session_view = view<session_state>;
using tenant_view = view<tenant_state>;
struct vram_view : device_view {};
struct kv_view : session_view {};
struct host_view {
  const snapshot* now;
};

// A list and how far a `for` has come in it.
template <class State>
struct list_view {
  const snapshot* now;
  std::vector<const State*> items;
  std::size_t next = 0;
};

int device_index(lua_State* L);
int vram_index(lua_State* L);
int part_index(lua_State* L);
int session_index(lua_State* L);
int kv_index(lua_State* L);
int host_index(lua_State* L);
int tenant_index(lua_State* L);
template <class State>
int list_index(lua_State* L);
template <class State>
int list_length(lua_State* L);
template <class State>
int list_next(lua_State* L);

template <class State>
struct kind_of;

int equal_devices(lua_State* L);
int equal_parts(lua_State* L);
int equal_sessions(lua_State* L);
int equal_tenants(lua_State* L);

const object_class device_class = {
    .name = "device", .index = guarded<device_index>, .equal = guarded<equal_devices>};
const object_class part_class = {
    .name = "part", .index = guarded<part_index>, .equal = guarded<equal_parts>};
const object_class session_class = {
    .name = "session", .index = guarded<session_index>, .equal = guarded<equal_sessions>};
const object_class tenant_class = {
    .name = "tenant", .index = guarded<tenant_index>, .equal = guarded<equal_tenants>};
const object_class vram_class = {.name = "vram", .index = guarded<vram_index>};
const object_class kv_class = {.name = "kv", .index = guarded<kv_index>};
const object_class host_class = {.name = "host", .index = guarded<host_index>};

template <class State>
object_class list_class_of(const char* name) {
  return {.name = name,
          .index = guarded<list_index<State>>,
          .length = guarded<list_length<State>>,
          .call = guarded<list_next<State>>};
}
const object_class part_list_class = list_class_of<part_state>("list of parts");
const object_class device_list_class = list_class_of<device_state>("list of devices");
const object_class session_list_class = list_class_of<session_state>("list of sessions");
const object_class tenant_list_class = list_class_of<tenant_state>("list of tenants");

template <>
struct kind_of<part_state> {
  static constexpr const object_class& one = part_class;
  static constexpr const object_class& list = part_list_class;
  static constexpr list_kind selectors = list_kind::parts;
};
template <>
struct kind_of<device_state> {
  static constexpr const object_class& one = device_class;
  static constexpr const object_class& list = device_list_class;
  static constexpr list_kind selectors = list_kind::devices;
};
template <>
struct kind_of<session_state> {
  static constexpr const object_class& one = session_class;
  static constexpr const object_class& list = session_list_class;
  static constexpr list_kind selectors = list_kind::sessions;
};
template <>
struct kind_of<tenant_state> {
  static constexpr const object_class& one = tenant_class;
  static constexpr const object_class& list = tenant_list_class;
  static constexpr list_kind selectors = list_kind::tenants;
};

std::string key_at(lua_State* L, int index) {
  std::size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

void push_text(lua_State* L, std::string_view text) {
  lua_pushlstring(L, text.data(), text.size());
}

// Counts are integers in Lua, so that they print without a point.
void push_count(lua_State* L, std::uint64_t count) {
  lua_pushinteger(L, static_cast<lua_Integer>(count));
}

void push_reading(lua_State* L, const snapshot& now, const reading& r) {
  if (!r.present() || r.stale(now.time_ms)) {
    lua_pushnil(L);
  } else {
    lua_pushnumber(L, r.value);
  }
}

void push_metric(lua_State* L, metric_id id, const object_ref& object) {
  push_reading(L, *object.now, metric(id).read(object));
}

[[noreturn]] void unknown_field(lua_State* L, const char* what, const std::string& key,
                                std::span<const std::string_view> known) {
  const std::string hint = name_hint(key, known);
  luaL_error(L, "a %s has no '%s'%s", what, key.c_str(), hint.c_str());
  __builtin_unreachable();
}

template <class State>
void push_one(lua_State* L, const snapshot* now, const State* state) {
  push_object(L, kind_of<State>::one, view<State>{now, state});
}

template <class State>
void push_list(lua_State* L, const snapshot* now, std::vector<const State*> items) {
  charge(L, static_cast<std::int64_t>(items.size()));
  push_object(L, kind_of<State>::list, list_view<State>{now, std::move(items), 0});
}

template <class State>
std::vector<const State*> pointers(const std::vector<State>& states) {
  std::vector<const State*> list;
  list.reserve(states.size());
  for (const State& s : states) list.push_back(&s);
  return list;
}

template <class State>
int equal_views(lua_State* L) {
  const auto& a = check_object<view<State>>(L, 1, kind_of<State>::one);
  const auto& b = check_object<view<State>>(L, 2, kind_of<State>::one);
  lua_pushboolean(L, a.state == b.state ? 1 : 0);
  return 1;
}
int equal_devices(lua_State* L) { return equal_views<device_state>(L); }
int equal_parts(lua_State* L) { return equal_views<part_state>(L); }
int equal_sessions(lua_State* L) { return equal_views<session_state>(L); }
int equal_tenants(lua_State* L) { return equal_views<tenant_state>(L); }

// device:parts() and device:residents(): what lies on it.
int device_parts(lua_State* L) {
  const auto& d = check_object<device_view>(L, 1, device_class);
  part_list list = select(*d.now, pointers(d.now->parts), selector::on, {0, d.state->name});
  push_list(L, d.now, std::move(list));
  return 1;
}

int device_sessions(lua_State* L) {
  const auto& d = check_object<device_view>(L, 1, device_class);
  session_list list = select(*d.now, pointers(d.now->sessions), selector::on, {0, d.state->name});
  push_list(L, d.now, std::move(list));
  return 1;
}

int device_index(lua_State* L) {
  constexpr std::string_view fields[] = {"name", "kind",      "vram",  "temp_c",
                                         "room", "residents", "parts", "sessions"};
  const auto& d = check_object<device_view>(L, 1, device_class);
  const std::string key = key_at(L, 2);
  if (key == "name") {
    push_text(L, d.state->name);
  } else if (key == "kind") {
    push_text(L, name_of(d.state->kind));
  } else if (key == "vram") {
    push_object(L, vram_class, vram_view{d});
  } else if (const metric_entry* m = find_metric(key);
             m != nullptr && m->belongs_to == scope::device) {
    push_metric(L, m->id, {d.now, d.state});
  } else if (key == "room") {
    const double room = known_room(*d.now, *d.state);
    room < 0 ? lua_pushnil(L) : lua_pushnumber(L, room);
  } else if (key == "residents" || key == "parts") {
    lua_pushcfunction(L, guarded<device_parts>);
  } else if (key == "sessions") {
    lua_pushcfunction(L, guarded<device_sessions>);
  } else {
    unknown_field(L, "device", key, fields);
  }
  return 1;
}

int vram_index(lua_State* L) {
  const auto& d = check_object<vram_view>(L, 1, vram_class);
  const std::string key = key_at(L, 2);
  const metric_entry* m = find_metric("vram." + key);
  if (m == nullptr) {
    constexpr std::string_view fields[] = {"used", "free", "total", "ours", "used_ratio"};
    unknown_field(L, "device's vram", key, fields);
  }
  push_metric(L, m->id, {d.now, d.state, nullptr, nullptr});
  return 1;
}

int part_index(lua_State* L) {
  constexpr std::string_view fields[] = {"name",     "kind",    "layer",  "device", "bytes",
                                         "kv_bytes", "movable", "pinned", "age_s",  "weight_bytes"};
  const auto& p = check_object<part_view>(L, 1, part_class);
  const std::string key = key_at(L, 2);
  if (key == "name") {
    push_text(L, p.state->name);
  } else if (key == "kind") {
    push_text(L, name_of(p.state->kind));
  } else if (key == "layer") {
    lua_pushinteger(L, p.state->layer);
  } else if (key == "device") {
    push_text(L, p.state->device);
  } else if (key == "bytes") {
    push_count(L, moving_bytes(*p.state));
  } else if (key == "weight_bytes") {
    push_count(L, p.state->weight_bytes);
  } else if (key == "kv_bytes") {
    push_count(L, p.state->kv_bytes);
  } else if (key == "movable") {
    lua_pushboolean(L, p.state->movable ? 1 : 0);
  } else if (key == "pinned") {
    lua_pushboolean(L, p.state->pinned ? 1 : 0);
  } else if (key == "age_s") {
    push_metric(L, metric_id::part_age_s, {p.now, nullptr, nullptr, p.state});
  } else {
    unknown_field(L, "part", key, fields);
  }
  return 1;
}

int session_index(lua_State* L) {
  constexpr std::string_view fields[] = {"id", "tenant", "context_tokens", "idle_s", "kv", "home"};
  const auto& s = check_object<session_view>(L, 1, session_class);
  const std::string key = key_at(L, 2);
  if (key == "id") {
    push_text(L, s.state->id);
  } else if (key == "tenant") {
    push_text(L, s.state->tenant);
  } else if (key == "context_tokens") {
    push_count(L, s.state->context_tokens);
  } else if (key == "idle_s") {
    lua_pushnumber(L, s.state->idle_s);
  } else if (key == "kv") {
    push_object(L, kv_class, kv_view{s});
  } else if (key == "home") {
    push_text(L, s.state->home);
  } else {
    unknown_field(L, "session", key, fields);
  }
  return 1;
}

int tenant_sessions_of(lua_State* L) {
  const auto& t = check_object<tenant_view>(L, 1, tenant_class);
  push_list(L, t.now,
            select(*t.now, pointers(t.now->sessions), selector::of_tenant, {0, t.state->name}));
  return 1;
}

int tenant_index(lua_State* L) {
  constexpr std::string_view fields[] = {"name", "kv_bytes", "gpu_kv_bytes", "sessions"};
  const auto& t = check_object<tenant_view>(L, 1, tenant_class);
  const object_ref object{t.now, nullptr, nullptr, nullptr, t.state};
  const std::string key = key_at(L, 2);
  if (key == "name") {
    push_text(L, t.state->name);
  } else if (key == "kv_bytes") {
    push_metric(L, metric_id::tenant_kv_bytes, object);
  } else if (key == "gpu_kv_bytes") {
    push_metric(L, metric_id::tenant_gpu_kv_bytes, object);
  } else if (key == "sessions") {
    lua_pushcfunction(L, guarded<tenant_sessions_of>);
  } else {
    unknown_field(L, "tenant", key, fields);
  }
  return 1;
}

int kv_bytes_on_device(lua_State* L) {
  const auto& kv = check_object<kv_view>(L, 1, kv_class);
  const device_state* d = find_device(*kv.now, target_name_at(L, 2));
  push_count(L, d == nullptr ? 0 : kv_bytes_on(*kv.state, d));
  return 1;
}

int kv_index(lua_State* L) {
  constexpr std::string_view fields[] = {"bytes", "bytes_on"};
  const auto& kv = check_object<kv_view>(L, 1, kv_class);
  const std::string key = key_at(L, 2);
  if (key == "bytes") {
    push_count(L, kv_bytes_on(*kv.state, nullptr));
  } else if (key == "bytes_on") {
    lua_pushcfunction(L, guarded<kv_bytes_on_device>);
  } else {
    unknown_field(L, "session's kv", key, fields);
  }
  return 1;
}

int host_index(lua_State* L) {
  const auto& h = check_object<host_view>(L, 1, host_class);
  const std::string key = key_at(L, 2);
  const metric_entry* m = find_metric("host." + key);
  if (m == nullptr) {
    constexpr std::string_view fields[] = {"memory_used_ratio", "memory_available", "memory_total",
                                           "pressure"};
    unknown_field(L, "host", key, fields);
  }
  push_metric(L, m->id, {h.now, nullptr, nullptr, nullptr});
  return 1;
}

selector_argument argument_at(lua_State* L, const selector_entry& entry) {
  selector_argument a;
  if (entry.argument == argument_kind::number) a.number = luaL_checknumber(L, 2);
  if (entry.argument != argument_kind::name) return a;
  const bool of_device = entry.id == selector::on || entry.id == selector::except;
  a.name = of_device ? target_name_at(L, 2) : key_at(L, 2);
  return a;
}

// One step of a chain: a new list, so that the one before stays as it was.
template <class State>
int apply_selector(lua_State* L, const selector_entry& entry) {
  const auto& list = check_object<list_view<State>>(L, 1, kind_of<State>::list);
  const selector_argument a = argument_at(L, entry);
  // Sorting costs more than walking.
  charge(L, 8 * static_cast<std::int64_t>(list.items.size()));
  std::vector<const State*> items = select(*list.now, list.items, entry.id, a);
  if (!entry.gives_one) {
    push_list(L, list.now, std::move(items));
  } else if (items.empty()) {
    lua_pushnil(L);
  } else {
    push_one(L, list.now, items.front());
  }
  return 1;
}

template <class State>
int list_index(lua_State* L) {
  const auto& list = check_object<list_view<State>>(L, 1, kind_of<State>::list);
  if (lua_isinteger(L, 2) != 0) {
    const lua_Integer i = lua_tointeger(L, 2);
    if (i < 1 || i > static_cast<lua_Integer>(list.items.size())) {
      lua_pushnil(L);
    } else {
      push_one(L, list.now, list.items[static_cast<std::size_t>(i - 1)]);
    }
    return 1;
  }
  const std::string key = key_at(L, 2);
  const selector_entry* entry = find_selector(kind_of<State>::selectors, key);
  if (entry == nullptr) {
    unknown_field(L, kind_of<State>::list.name, key, selector_names(kind_of<State>::selectors));
  }
  push_function(L, [entry](lua_State* S) { return apply_selector<State>(S, *entry); });
  return 1;
}

template <class State>
int list_length(lua_State* L) {
  const auto& list = check_object<list_view<State>>(L, 1, kind_of<State>::list);
  push_count(L, list.items.size());
  return 1;
}

// `for x in list do` calls (list, nil, the last x); nil as the last begins anew.
template <class State>
int list_next(lua_State* L) {
  auto& list = check_object<list_view<State>>(L, 1, kind_of<State>::list);
  if (lua_isnoneornil(L, 3)) list.next = 0;
  if (list.next >= list.items.size()) {
    lua_pushnil(L);
  } else {
    push_one(L, list.now, list.items[list.next++]);
  }
  return 1;
}

template <class Push>
void define(lua_State* L, const char* name, const scene& looked_at, Push push) {
  push_function(L, [name, at = &looked_at, push](lua_State* S) {
    if (at->now == nullptr) {
      luaL_error(S, "%s() has an answer only inside 'plan' and 'undo'", name);
    }
    push(S, at->now);
    return 1;
  });
  lua_setglobal(L, name);
}

}  // namespace

void define_objects(lua_State* L, const scene& looked_at) {
  define(L, "devices", looked_at,
         [](lua_State* S, const snapshot* n) { push_list(S, n, pointers(n->devices)); });
  define(L, "parts", looked_at,
         [](lua_State* S, const snapshot* n) { push_list(S, n, pointers(n->parts)); });
  define(L, "sessions", looked_at,
         [](lua_State* S, const snapshot* n) { push_list(S, n, pointers(n->sessions)); });
  define(L, "tenants", looked_at,
         [](lua_State* S, const snapshot* n) { push_list(S, n, pointers(n->tenants)); });
  define(L, "host", looked_at,
         [](lua_State* S, const snapshot* n) { push_object(S, host_class, host_view{n}); });
}

void push_judged(lua_State* L, const object_ref& object) {
  if (object.device != nullptr) return push_one(L, object.now, object.device);
  if (object.session != nullptr) return push_one(L, object.now, object.session);
  if (object.part != nullptr) return push_one(L, object.now, object.part);
  if (object.tenant != nullptr) return push_one(L, object.now, object.tenant);
  push_object(L, host_class, host_view{object.now});
}

std::string part_name_at(lua_State* L, int index) {
  if (is_object(L, index, part_class)) {
    return check_object<part_view>(L, index, part_class).state->name;
  }
  return key_at(L, index);
}

std::string target_name_at(lua_State* L, int index) {
  if (is_object(L, index, device_class)) {
    return check_object<device_view>(L, index, device_class).state->name;
  }
  return key_at(L, index);
}

std::string kv_session_at(lua_State* L, int index) {
  if (is_object(L, index, session_class)) {
    return check_object<session_view>(L, index, session_class).state->id;
  }
  return check_object<kv_view>(L, index, kv_class).state->id;
}

}  // namespace terrane::policies::lua
