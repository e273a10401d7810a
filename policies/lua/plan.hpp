// Asks a Lua policy what it wants. Each call runs the policy's text in a fresh sandbox, finds the
// policy by name and calls its `plan` or `undo` with a read-only view of the snapshot and a
// recorder. Nothing is retained between calls. The same rule and snapshot give the same proposal.
// Any thread.
#pragma once

#include <tl/expected.hpp>

#include "policies/lua/sandbox.hpp"
#include "policies/planner/intent.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies::lua {

enum class entry_point { plan, undo };

tl::expected<proposal, script_error> propose(const rule& r, const lua_action& action,
                                             entry_point entry, const object_ref& object);

}  // namespace terrane::policies::lua
