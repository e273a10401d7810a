#include "policies/lua/recorder.hpp"

#include <algorithm>
#include <cmath>

#include <lauxlib.h>
#include <lua.h>

#include "policies/lua/objects.hpp"
#include "policies/planner/cheaper_spill.hpp"
#include "policies/vocabulary/lua_words.hpp"
#include "policies/vocabulary/nearest.hpp"

namespace terrane::policies::lua {
namespace {

constexpr std::size_t max_notes = 16;

struct recorder {
  proposal* into;
};

int recorder_index(lua_State* L);
const object_class recorder_class = {.name = "recorder", .index = guarded<recorder_index>};

proposal& recorded(lua_State* L) { return *check_object<recorder>(L, 1, recorder_class).into; }

// A reason goes into logs and on terminals, so control characters stay out.
std::string reason_at(lua_State* L, int index) {
  std::size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  std::string reason(text, std::min(size, max_reason_bytes));
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (reason.empty()) luaL_argerror(L, index, "a reason is needed");
  return reason;
}

target_choice target_at(lua_State* L, int index) {
  std::string name = target_name_at(L, index);
  const std::optional<target_kind> kind = find_word(targets(), name);
  return kind ? target_choice{*kind, {}}
              : target_choice{target_kind::device, device_pattern(std::move(name))};
}

int add(lua_State* L, intent i) {
  proposal& p = recorded(L);
  if (p.wanted.size() >= max_intents) {
    luaL_error(L, "a plan may not hold more than %d moves", static_cast<int>(max_intents));
  }
  p.wanted.push_back(std::move(i));
  return 0;
}

// out:move(part, target, reason)
int record_move(lua_State* L) {
  intent i;
  i.action = verb::move;
  i.kind = subject_kind::part;
  i.subject = part_name_at(L, 2);
  i.to.push_back(target_at(L, 3));
  i.reason = reason_at(L, 4);
  return add(L, std::move(i));
}

// Options of spill, whose table is on top of the stack.
struct spill_options {
  spilling what = spilling::kv;
  std::uint64_t bytes = 0;
  std::uint64_t keep_tokens = 0;
  target_choice to = {target_kind::cpu, {}};
};

void check_spill_options(lua_State* L) {
  const std::vector<std::string_view> known = key_names(place::spill_options, spoken_in::lua);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    lua_pop(L, 1);
    const bool is_text = lua_type(L, -1) == LUA_TSTRING;
    const std::string key = is_text ? lua_tostring(L, -1) : "?";
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string hint = name_hint(key, known);
    luaL_error(L, "spill has no option '%s'%s", key.c_str(), hint.c_str());
  }
}

// Pushes an option; false when it was not given.
bool push_option(lua_State* L, policy_key key) {
  lua_getfield(L, -1, row_of(key).name.data());
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

// Pops an option that counts something.
std::uint64_t pop_count(lua_State* L, policy_key key) {
  const double number = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
  // Bytes are computed, and what is needed is rounded up.
  const double whole = key == policy_key::spill_bytes ? std::ceil(number) : std::floor(number);
  const bool exact = key == policy_key::spill_bytes || whole == number;
  const double most = row_of(key).most > 0 ? static_cast<double>(row_of(key).most) : 9e15;
  if (!(number >= 0 && number <= most) || !exact) {
    luaL_error(L, "%s must be a whole number, at most %f", row_of(key).name.data(), most);
  }
  lua_pop(L, 1);
  return static_cast<std::uint64_t>(whole);
}

spilling pop_spilling(lua_State* L) {
  const std::string name = luaL_checkstring(L, -1);
  const std::optional<spilling> what = find_word(spillings(), name);
  if (!what) {
    const std::string hint = name_hint(name, names_of(spillings()));
    luaL_error(L, "spill cannot take '%s'%s", name.c_str(), hint.c_str());
  }
  lua_pop(L, 1);
  return *what;
}

spill_options spill_options_at(lua_State* L, int index) {
  if (!push_plain(L, index)) {
    luaL_argerror(L, index, "a table of options, such as { to = \"host\" }");
  }
  check_spill_options(L);
  spill_options o;
  if (push_option(L, policy_key::spill_what)) o.what = pop_spilling(L);
  if (push_option(L, policy_key::spill_bytes)) o.bytes = pop_count(L, policy_key::spill_bytes);
  if (push_option(L, policy_key::spill_keep_tokens)) {
    o.keep_tokens = pop_count(L, policy_key::spill_keep_tokens);
  }
  if (push_option(L, policy_key::spill_to)) {
    o.to = target_at(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return o;
}

// out:spill(gpu, { what = "cheaper", bytes = GiB(2) }, reason): KV or weights of a device.
int record_cheaper(lua_State* L, const spill_options& o, std::string reason) {
  if (o.bytes == 0) luaL_error(L, "to spill what is cheaper needs 'bytes': how much must leave");
  const object_ref from = device_at(L, 2);
  charge(L, static_cast<std::int64_t>(8 * (from.now->parts.size() + from.now->sessions.size())));
  cheaper_spill chosen = spill_cheaper(
      *from.now,
      {from.device, o.bytes, {o.to}, ordering::longest_idle, o.keep_tokens, std::move(reason)});
  take_until(chosen, o.bytes);
  proposal& p = recorded(L);
  if (!chosen.note.empty() && p.notes.size() < max_notes) p.notes.push_back(chosen.note);
  for (intent& i : chosen.wanted) add(L, std::move(i));
  return 0;
}

// out:spill(session.kv, { keep_tokens = 1024, to = "host" }, reason)
int record_spill(lua_State* L) {
  std::string reason = reason_at(L, 4);
  const spill_options o = spill_options_at(L, 3);
  if (o.what == spilling::cheaper) return record_cheaper(L, o, std::move(reason));
  intent i;
  i.action = verb::spill;
  i.kind = subject_kind::session_kv;
  i.subject = kv_session_at(L, 2);
  i.keep_tokens = o.keep_tokens;
  i.to.push_back(o.to);
  i.reason = std::move(reason);
  return add(L, std::move(i));
}

// out:fetch(session.kv, target, reason); an empty or nil target is "beside the parts that use it".
int record_fetch(lua_State* L) {
  intent i;
  i.action = verb::fetch;
  i.kind = subject_kind::session_kv;
  i.subject = kv_session_at(L, 2);
  i.reason = reason_at(L, 4);
  const bool home = lua_isnil(L, 3) || (lua_isstring(L, 3) != 0 && target_name_at(L, 3).empty());
  if (!home) i.to.push_back(target_at(L, 3));
  return add(L, std::move(i));
}

// out:restore(object, reason): everything this policy moved for the object it is judged for.
int record_restore(lua_State* L) {
  proposal& p = recorded(L);
  p.restore_reason = reason_at(L, lua_gettop(L));
  p.restore = true;
  return 0;
}

// out:yield(reason): all that is on the device it is judged for leaves it, and nothing comes there
// until the policy releases.
int record_yield(lua_State* L) {
  proposal& p = recorded(L);
  p.yield_reason = reason_at(L, lua_gettop(L));
  return 0;
}

int record_decline(lua_State* L) {
  proposal& p = recorded(L);
  if (p.notes.size() < max_notes) p.notes.push_back("Declined: " + reason_at(L, 2) + ".");
  return 0;
}

int recorder_index(lua_State* L) {
  const std::string key = luaL_checkstring(L, 2);
  const std::optional<verb> known = find_word(verbs(), key);
  if (!known) {
    const std::string hint = name_hint(key, member_names(lua_object::recorder));
    luaL_error(L, "a plan cannot '%s'%s", key.c_str(), hint.c_str());
  }
  switch (*known) {
    case verb::move:
      lua_pushcfunction(L, guarded<record_move>);
      break;
    case verb::spill:
      lua_pushcfunction(L, guarded<record_spill>);
      break;
    case verb::fetch:
      lua_pushcfunction(L, guarded<record_fetch>);
      break;
    case verb::restore:
      lua_pushcfunction(L, guarded<record_restore>);
      break;
    case verb::yield:
      lua_pushcfunction(L, guarded<record_yield>);
      break;
    case verb::decline:
      lua_pushcfunction(L, guarded<record_decline>);
      break;
  }
  return 1;
}

}  // namespace

void push_recorder(lua_State* L, proposal& into) {
  push_object(L, recorder_class, recorder{&into});
}

}  // namespace terrane::policies::lua
