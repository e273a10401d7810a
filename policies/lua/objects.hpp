// The read-only view of a snapshot that a Lua plan gets: devices, parts, sessions, the host, and
// lists of them with selector chains in defined orders. A reading that is stale or absent is nil.
// Used inside sandbox::enter only; the snapshot outlives the sandbox.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/lua/sandbox_binding.hpp"
#include "policies/vocabulary/lua_words.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies::lua {

// What devices(), parts(), sessions() and host() look at. Null outside a plan: at the top level of
// a policy file there is nothing to look at, and asking is an error.
struct scene {
  const snapshot* now = nullptr;
};

// Defines the four functions; the scene outlives the sandbox.
void define_objects(lua_State* L, const scene& looked_at);

// Pushes the object a policy is judged for.
void push_judged(lua_State* L, const object_ref& object);

// The fields and methods that are bound here: those of the vocabulary's table but for metrics and
// selectors, which are looked up there. For the test that both have the same.
std::vector<std::string_view> bound_names(lua_object of);

// What stands at a stack index, for the recorder: a part or its name, a device or its name or a
// target word, a session's KV. Lua errors when something else does.
std::string part_name_at(lua_State* L, int index);
std::string target_name_at(lua_State* L, int index);
std::string kv_session_at(lua_State* L, int index);
// A device and the snapshot that it stands in.
object_ref device_at(lua_State* L, int index);

}  // namespace terrane::policies::lua
