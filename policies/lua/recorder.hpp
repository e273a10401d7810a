// The `out` of a Lua plan: it writes down what the plan wants and can do nothing else. Used inside
// sandbox::enter only; the proposal outlives the sandbox.
#pragma once

#include "policies/lua/sandbox_binding.hpp"
#include "policies/planner/intent.hpp"

namespace terrane::policies::lua {

// More intents than this in one plan are an error of the policy.
inline constexpr std::size_t max_intents = 4096;
// Reasons are cut at this length.
inline constexpr std::size_t max_reason_bytes = 200;

// Pushes a recorder that appends to the proposal.
void push_recorder(lua_State* L, proposal& into);

}  // namespace terrane::policies::lua
