#include "policies/reference/value_schemas.hpp"

namespace terrane::policies::reference {
namespace {

// As std::from_chars reads numbers that are not negative.
constexpr std::string_view number_pattern = R"(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)";
constexpr std::string_view time_pattern = "([01][0-9]|2[0-3]):[0-5][0-9]";
constexpr std::string_view day_pattern = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)";

// Blanks around a text are allowed.
json_tree text_like(const std::string& pattern) {
  return json_tree::object({{"type", "string"}, {"pattern", "^ *" + pattern + " *$"}});
}

std::string symbols_pattern(unit u) {
  std::string symbols;
  for (const unit_entry& e : units()) {
    if (e.measured_in == u) symbols += (symbols.empty() ? "" : "|") + std::string(e.symbol);
  }
  return symbols;
}

json_tree any_of(std::vector<json_tree> choices) {
  return json_tree::object({{"anyOf", json_tree::array(std::move(choices))}});
}

json_tree number_from_zero() { return json_tree::object({{"type", "number"}, {"minimum", 0}}); }

// As a ratio, and more with its symbol.
json_tree mark_schema() {
  return any_of({number_from_zero().add("maximum", 1),
                 text_like(std::string(number_pattern) + " *%"),
                 text_like(R"((0|1|0?\.[0-9]+|1\.0*))")});
}

json_tree ratio_schema() {
  return any_of({number_from_zero().add("maximum", 1),
                 text_like(R"((100(\.0*)?|[0-9]{1,2}(\.[0-9]*)?) *%)"),
                 text_like(R"((0|1|0?\.[0-9]+|1\.0*))")});
}

}  // namespace

json_tree refer_to(std::string_view definition) {
  return json_tree::object({{"$ref", "#/$defs/" + std::string(definition)}});
}

json_tree names_array(const std::vector<std::string_view>& names) {
  json_tree array = json_tree::array();
  for (const std::string_view name : names) array.push(name);
  return array;
}

json_tree quantity_schema(unit u) {
  if (u == unit::ratio) return ratio_schema();
  if (u == unit::truth) {
    return json_tree::object({{"enum", json_tree::array({true, false, "true", "false"})}});
  }
  if (u == unit::time_of_day) return text_like(std::string(time_pattern));
  if (u == unit::weekday) return text_like(std::string(day_pattern));
  const std::string symbols = symbols_pattern(u);
  const std::string with_symbol = symbols.empty() ? "" : " *(" + symbols + ")?";
  return any_of({number_from_zero(), text_like(std::string(number_pattern) + with_symbol)});
}

std::string value_definition(unit u, bool may_pass_the_whole) {
  if (may_pass_the_whole) return "share_of_a_mark";
  return "quantity_" + std::string(name_of(u));
}

json_tree range_schema(unit u) {
  const std::string one(u == unit::weekday ? day_pattern : time_pattern);
  const std::string upper = " *- *" + one;
  return text_like(one + (u == unit::weekday ? "(" + upper + ")?" : upper));
}

json_tree duration_schema() {
  return any_of(
      {json_tree::object({{"const", 0}}), text_like("0"),
       text_like(std::string(number_pattern) + " *(" + symbols_pattern(unit::seconds) + ")")});
}

json_tree one_or_list(const json_tree& item) {
  return any_of({item, json_tree::object({{"type", "array"}, {"items", item}, {"minItems", 1}})});
}

void define_values(json_tree& definitions) {
  for (const word<unit>& u : measures()) {
    definitions.add("quantity_" + std::string(u.name),
                    quantity_schema(u.value).add("description", u.says));
    if (suits(comparison::within, u.value)) {
      definitions.add("range_" + std::string(u.name),
                      range_schema(u.value).add("description", "a range of such"));
    }
  }
  definitions.add("share_of_a_mark",
                  mark_schema().add("description", "a share of what may be passed, such as 105%"));
  json_tree duration = duration_schema();
  duration.add("description", "a time with its unit, such as 500ms, 5s, 2m or 1h");
  definitions.add("duration", std::move(duration));
}

}  // namespace terrane::policies::reference
