// Compiles a Lua policy file to rules: runs its top level once in a sandbox, where each call of
// `policy "name" {...}` describes one rule. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/diagnostic.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies::lua {

// Appends the rules of the text, and its faults. A rule with a fault of its own is left out.
void load_rules(const std::string& name, std::string_view text, std::vector<rule>& rules,
                std::vector<diagnostic>& faults);

}  // namespace terrane::policies::lua
