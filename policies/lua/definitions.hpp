// The words a policy file uses at its top level: `policy "name" {...}`, the detectors above, below,
// all_of and any_of with their :held, and byte units such as GiB(4). Detectors are data: they
// become conditions of the internal rule and run no Lua later. Used inside sandbox::enter only.
#pragma once

#include <functional>
#include <string>

#include "policies/lua/sandbox_binding.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies::lua {

// Called for each policy of the file with its name; its table is on top of the stack. What it
// leaves on the stack is dropped.
using policy_callback = std::function<void(lua_State*, const std::string& name)>;

void define_words(lua_State* L, policy_callback on_policy);

struct detector {
  condition value;
  bool held_given = false;
};

// The detector at a stack index; null when something else is there.
const detector* detector_at(lua_State* L, int index);

}  // namespace terrane::policies::lua
