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

template <class View>
int view_index(lua_State* L);
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
    .name = "device", .index = guarded<view_index<device_view>>, .equal = guarded<equal_devices>};
const object_class part_class = {
    .name = "part", .index = guarded<view_index<part_view>>, .equal = guarded<equal_parts>};
const object_class session_class = {.name = "session",
                                    .index = guarded<view_index<session_view>>,
                                    .equal = guarded<equal_sessions>};
const object_class tenant_class = {
    .name = "tenant", .index = guarded<view_index<tenant_view>>, .equal = guarded<equal_tenants>};
const object_class vram_class = {.name = "vram", .index = guarded<view_index<vram_view>>};
const object_class kv_class = {.name = "kv", .index = guarded<view_index<kv_view>>};
const object_class host_class = {.name = "host", .index = guarded<view_index<host_view>>};

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

void push_metric(lua_State* L, const metric_entry& m, const object_ref& object) {
  const reading r = m.read(object);
  if (!r.present() || r.stale(object.now->time_ms)) {
    lua_pushnil(L);
  } else if (m.measured_in == unit::truth) {
    lua_pushboolean(L, r.value != 0 ? 1 : 0);
  } else {
    lua_pushnumber(L, r.value);
  }
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

int tenant_sessions_of(lua_State* L) {
  const auto& t = check_object<tenant_view>(L, 1, tenant_class);
  push_list(L, t.now,
            select(*t.now, pointers(t.now->sessions), selector::of_tenant, {0, t.state->name}));
  return 1;
}

int kv_bytes_on_device(lua_State* L) {
  const auto& kv = check_object<kv_view>(L, 1, kv_class);
  const device_state* d = find_device(*kv.now, target_name_at(L, 2));
  push_count(L, d == nullptr ? 0 : kv_bytes_on(*kv.state, d));
  return 1;
}

// A field or method of an object: its name, which the vocabulary's table has too, and what pushes
// it. Fields that are metrics stand in the table alone.
template <class View>
struct member {
  std::string_view name;
  void (*push)(lua_State* L, const View& v);
};

template <native_function Method>
void push_method(lua_State* L) {
  lua_pushcfunction(L, guarded<Method>);
}

constexpr member<device_view> device_members[] = {
    {"name", [](lua_State* L, const device_view& d) { push_text(L, d.state->name); }},
    {"kind", [](lua_State* L, const device_view& d) { push_text(L, name_of(d.state->kind)); }},
    {"vram", [](lua_State* L, const device_view& d) { push_object(L, vram_class, vram_view{d}); }},
    {"room",
     [](lua_State* L, const device_view& d) {
       const double room = known_room(*d.now, *d.state);
       room < 0 ? lua_pushnil(L) : lua_pushnumber(L, room);
     }},
    {"parts", [](lua_State* L, const device_view&) { push_method<device_parts>(L); }},
    {"residents", [](lua_State* L, const device_view&) { push_method<device_parts>(L); }},
    {"sessions", [](lua_State* L, const device_view&) { push_method<device_sessions>(L); }},
};

constexpr member<part_view> part_members[] = {
    {"name", [](lua_State* L, const part_view& p) { push_text(L, p.state->name); }},
    {"kind", [](lua_State* L, const part_view& p) { push_text(L, name_of(p.state->kind)); }},
    {"layer", [](lua_State* L, const part_view& p) { lua_pushinteger(L, p.state->layer); }},
    {"device", [](lua_State* L, const part_view& p) { push_text(L, p.state->device); }},
    {"bytes", [](lua_State* L, const part_view& p) { push_count(L, moving_bytes(*p.state)); }},
    {"weight_bytes",
     [](lua_State* L, const part_view& p) { push_count(L, p.state->weight_bytes); }},
    {"kv_bytes", [](lua_State* L, const part_view& p) { push_count(L, p.state->kv_bytes); }},
    {"movable",
     [](lua_State* L, const part_view& p) { lua_pushboolean(L, p.state->movable ? 1 : 0); }},
    {"pinned",
     [](lua_State* L, const part_view& p) { lua_pushboolean(L, p.state->pinned ? 1 : 0); }},
    {"age_s",
     [](lua_State* L, const part_view& p) {
       push_metric(L, metric(metric_id::part_age_s), {p.now, nullptr, nullptr, p.state});
     }},
};

constexpr member<session_view> session_members[] = {
    {"id", [](lua_State* L, const session_view& s) { push_text(L, s.state->id); }},
    {"tenant", [](lua_State* L, const session_view& s) { push_text(L, s.state->tenant); }},
    {"context_tokens",
     [](lua_State* L, const session_view& s) { push_count(L, s.state->context_tokens); }},
    {"idle_s", [](lua_State* L, const session_view& s) { lua_pushnumber(L, s.state->idle_s); }},
    {"kv", [](lua_State* L, const session_view& s) { push_object(L, kv_class, kv_view{s}); }},
    {"home", [](lua_State* L, const session_view& s) { push_text(L, s.state->home); }},
};

constexpr member<kv_view> kv_members[] = {
    {"bytes",
     [](lua_State* L, const kv_view& kv) { push_count(L, kv_bytes_on(*kv.state, nullptr)); }},
    {"reserved_bytes",
     [](lua_State* L, const kv_view& kv) { push_count(L, empty_bytes(kv.state->kv)); }},
    {"bytes_on", [](lua_State* L, const kv_view&) { push_method<kv_bytes_on_device>(L); }},
};

void push_tenant_metric(lua_State* L, metric_id id, const tenant_view& t) {
  push_metric(L, metric(id), {t.now, nullptr, nullptr, nullptr, t.state});
}

constexpr member<tenant_view> tenant_members[] = {
    {"name", [](lua_State* L, const tenant_view& t) { push_text(L, t.state->name); }},
    {"kv_bytes",
     [](lua_State* L, const tenant_view& t) {
       push_tenant_metric(L, metric_id::tenant_kv_bytes, t);
     }},
    {"gpu_kv_bytes",
     [](lua_State* L, const tenant_view& t) {
       push_tenant_metric(L, metric_id::tenant_gpu_kv_bytes, t);
     }},
    {"reserved_bytes",
     [](lua_State* L, const tenant_view& t) {
       push_tenant_metric(L, metric_id::tenant_reserved_bytes, t);
     }},
    {"sessions", [](lua_State* L, const tenant_view&) { push_method<tenant_sessions_of>(L); }},
};

// What a view is in the vocabulary's table, how errors call it, and its members here.
template <class View>
struct shown;
template <>
struct shown<device_view> {
  static constexpr lua_object of = lua_object::device;
  static constexpr const object_class& kind = device_class;
  static constexpr const char* called = "device";
  static constexpr std::span<const member<device_view>> members = device_members;
  static object_ref object(const device_view& d) { return {d.now, d.state}; }
};
template <>
struct shown<vram_view> {
  static constexpr lua_object of = lua_object::vram;
  static constexpr const object_class& kind = vram_class;
  static constexpr const char* called = "device's vram";
  static constexpr std::span<const member<vram_view>> members = {};
  static object_ref object(const vram_view& d) { return {d.now, d.state}; }
};
template <>
struct shown<part_view> {
  static constexpr lua_object of = lua_object::part;
  static constexpr const object_class& kind = part_class;
  static constexpr const char* called = "part";
  static constexpr std::span<const member<part_view>> members = part_members;
  static object_ref object(const part_view& p) { return {p.now, nullptr, nullptr, p.state}; }
};
template <>
struct shown<session_view> {
  static constexpr lua_object of = lua_object::session;
  static constexpr const object_class& kind = session_class;
  static constexpr const char* called = "session";
  static constexpr std::span<const member<session_view>> members = session_members;
  static object_ref object(const session_view& s) { return {s.now, nullptr, s.state}; }
};
template <>
struct shown<kv_view> {
  static constexpr lua_object of = lua_object::kv;
  static constexpr const object_class& kind = kv_class;
  static constexpr const char* called = "session's kv";
  static constexpr std::span<const member<kv_view>> members = kv_members;
  static object_ref object(const kv_view& s) { return {s.now, nullptr, s.state}; }
};
template <>
struct shown<tenant_view> {
  static constexpr lua_object of = lua_object::tenant;
  static constexpr const object_class& kind = tenant_class;
  static constexpr const char* called = "tenant";
  static constexpr std::span<const member<tenant_view>> members = tenant_members;
  static object_ref object(const tenant_view& t) {
    return {t.now, nullptr, nullptr, nullptr, t.state};
  }
};
template <>
struct shown<host_view> {
  static constexpr lua_object of = lua_object::host;
  static constexpr const object_class& kind = host_class;
  static constexpr const char* called = "host";
  static constexpr std::span<const member<host_view>> members = {};
  static object_ref object(const host_view& h) { return {h.now}; }
};

template <class View>
int view_index(lua_State* L) {
  using known = shown<View>;
  const auto& v = check_object<View>(L, 1, known::kind);
  const std::string key = key_at(L, 2);
  for (const member<View>& m : known::members) {
    if (m.name != key) continue;
    m.push(L, v);
    return 1;
  }
  const metric_entry* m = metric_field(known::of, key);
  if (m == nullptr) unknown_field(L, known::called, key, member_names(known::of));
  push_metric(L, *m, known::object(v));
  return 1;
}

template <class View>
std::vector<std::string_view> names_of_members() {
  std::vector<std::string_view> names;
  for (const member<View>& m : shown<View>::members) names.push_back(m.name);
  return names;
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

std::vector<std::string_view> bound_names(lua_object of) {
  switch (of) {
    case lua_object::device:
      return names_of_members<device_view>();
    case lua_object::part:
      return names_of_members<part_view>();
    case lua_object::session:
      return names_of_members<session_view>();
    case lua_object::kv:
      return names_of_members<kv_view>();
    case lua_object::tenant:
      return names_of_members<tenant_view>();
    default:
      return {};
  }
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

object_ref device_at(lua_State* L, int index) {
  const auto& d = check_object<device_view>(L, index, device_class);
  return {d.now, d.state};
}

std::string kv_session_at(lua_State* L, int index) {
  if (is_object(L, index, session_class)) {
    return check_object<session_view>(L, index, session_class).state->id;
  }
  return check_object<kv_view>(L, index, kv_class).state->id;
}

}  // namespace terrane::policies::lua
