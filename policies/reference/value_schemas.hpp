// JSON Schemas of single values: words, quantities with their units, times. Used by the schemas of
// this folder. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/reference/json_tree.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies::reference {

// A reference to a definition of the same schema.
json_tree refer_to(std::string_view definition);

// One of the words, each with what it says.
template <class Words>
json_tree one_of_words(const Words& words) {
  json_tree choices = json_tree::array();
  for (const auto& w : words) {
    choices.push(json_tree::object({{"const", w.name}, {"description", w.says}}));
  }
  return json_tree::object({{"anyOf", choices}});
}

json_tree names_array(const std::vector<std::string_view>& names);

// A quantity of that unit, with or without its symbol.
json_tree quantity_schema(unit u);
// The definition of what a metric's limits and values are: `quantity_UNIT`, or `share_of_a_mark`.
std::string value_definition(unit u, bool may_pass_the_whole);
// A range of times of day or days.
json_tree range_schema(unit u);
// "5s"; a bare number only when it is 0.
json_tree duration_schema();
// That schema, or a list of it.
json_tree one_or_list(const json_tree& item);

// Definitions `quantity_UNIT` of every unit, `range_UNIT` of those that have ranges,
// `share_of_a_mark` of ratios that may be more than 100 %, and `duration`.
void define_values(json_tree& definitions);

}  // namespace terrane::policies::reference
