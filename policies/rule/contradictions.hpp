// What can never be: a condition that no reading meets, two policies that undo each other, and one
// that is to fill a device further than another allows. Found in the files alone: what is so
// wherever there are devices of the names that both speak of is an error, what depends on which
// devices a target turns out to be is a warning. Pure; any thread.
#pragma once

#include <vector>

#include "policies/diagnostic.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies {

// Appends the conditions of a rule that can never hold.
void lint_conditions(const rule& r, std::vector<diagnostic>& faults);

// Appends what contradicts each other among rules, at the second of the two and naming the first:
// - Policies of one priority that engage on the same readings, of which one brings back what the
//   other takes away: an error where that takes from every place that the other brings it to, a
//   warning where only from some. A higher priority says which is to win, so that is no
//   contradiction.
// - A policy that fills a device up to a level past the one down to which another relieves it:
//   nothing is put there beyond that.
// Policies in shadow mode act on nothing, and what a Lua plan does is known only when it is run.
void lint_contradictions(const std::vector<rule>& rules, std::vector<diagnostic>& faults);

}  // namespace terrane::policies
