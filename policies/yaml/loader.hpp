// Compiles a YAML policy file to rules. Every fault is reported with its line and column. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/diagnostic.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies::yaml {

// Appends the rules of the text, and its faults. Rules with faults of their own are left out.
void load_rules(const std::string& name, std::string_view text, std::vector<rule>& rules,
                std::vector<diagnostic>& faults);

}  // namespace terrane::policies::yaml
