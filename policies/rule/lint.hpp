// What both languages must obey once compiled: metrics fit the object, the band between `enter` and
// `leave` exists, the action fits the scope. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/diagnostic.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies {

// `leave` releases slower than `enter` engages unless the author says otherwise: this many times.
inline constexpr std::int64_t leave_held_factor = 6;

// The longest `held` of a condition and its terms.
std::int64_t longest_held_ms(const condition& c);

// Whether a name is 1 to 64 letters, digits and the given others.
bool is_plain_name(std::string_view name, std::string_view others);

// Appends the faults of one rule.
void lint_rule(const rule& r, std::vector<diagnostic>& faults);
// Appends the faults between rules: names that are taken twice.
void lint_names(const std::vector<rule>& rules, std::vector<diagnostic>& faults);

// "'host.time' takes 'within' or 'outside', not 'above'; it is measured as time_of_day".
std::string unsuited_text(metric_id id, comparison how);

// Whether freeing bytes of an object of that scope can bring the metric to a limit.
bool counts_bytes(scope judged, const metric_entry& m);

}  // namespace terrane::policies
