#include <algorithm>

#include "policies/reference/reference.hpp"
#include "policies/reference/value_schemas.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/metric_value.hpp"

namespace terrane::policies::reference {
namespace {

// A device is named by driver and identity, by a pattern, or with its kind by the driver.
json_tree device_name() {
  std::string driver;
  for (const std::string_view name : drivers()) driver += "|^" + std::string(name) + "$";
  return json_tree::object(
      {{"type", "string"},
       {"pattern", "[:*?]" + driver},
       {"description", "a driver, a device's name, such as vulkan:<uuid>, or a pattern"}});
}

json_tree words_or(json_tree words, json_tree otherwise) {
  return json_tree::object({{"anyOf", json_tree::array({std::move(words), std::move(otherwise)})}});
}

json_tree target_schema(bool only_origins) {
  std::vector<word<target_kind>> words;
  for (const word<target_kind>& w : targets()) {
    if (!only_origins || w.value == target_kind::cpu) words.push_back(w);
  }
  return one_or_list(words_or(one_of_words(words), device_name()));
}

json_tree parts_schema() {
  json_tree pattern = json_tree::object(
      {{"type", "string"},
       {"pattern", "^(?=.*[*?.])[A-Za-z0-9*?._-]{1,64}$"},
       {"description", "a pattern over part names with * and ?, such as layer.*.ffn"}});
  return words_or(one_of_words(selections()), std::move(pattern));
}

json_tree list_of(const json_tree& items) {
  return json_tree::object({{"type", "array"}, {"items", items}});
}

json_tree constant(std::string_view text) { return json_tree::object({{"const", text}}); }

// What a key may hold; `quantity` and `range` depend on the metric beside them.
json_tree value_schema(const key_entry& k) {
  switch (k.holds) {
    case key_value::version:
      return constant(policy_version);
    case key_value::policy_list:
      return list_of(refer_to("policy"));
    case key_value::policy_name:
      return json_tree::object({{"type", json_tree::array({"string", "integer"})},
                                {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}});
    case key_value::scope:
      return one_of_words(scopes());
    case key_value::mode:
      return one_of_words(modes());
    case key_value::names: {
      const json_tree name = json_tree::object({{"type", json_tree::array({"string", "integer"})}});
      return words_or(name, list_of(name));
    }
    case key_value::whole_number:
      return json_tree::object({{"type", "integer"}, {"minimum", k.least}, {"maximum", k.most}});
    case key_value::condition:
      return refer_to("condition");
    case key_value::condition_list:
      return list_of(refer_to("comparison"))
          .add("minItems", 1)
          .add("maxItems", static_cast<std::int64_t>(max_terms));
    case key_value::duration:
      return refer_to("duration");
    case key_value::bytes:
      return refer_to("quantity_bytes");
    case key_value::limit_map:
      return refer_to("limit");
    case key_value::flapping_map:
      return refer_to("flapping");
    case key_value::quota_map:
      return refer_to("quota");
    case key_value::kv_place:
      return words_or(json_tree::object({{"enum", json_tree::array({"all", "gpu", "cpu"})}}),
                      device_name());
    case key_value::action_map:
      return refer_to("action");
    case key_value::undo:
      return one_of_words(undos());
    case key_value::metric:
      return one_of_words(metrics());
    case key_value::truth:
      return refer_to("quantity_truth");
    case key_value::parts:
      return parts_schema();
    case key_value::spilling:
      return one_of_words(spillings());
    case key_value::kv:
      return constant("kv");
    case key_value::whole_device:
      return constant("device");
    case key_value::ordering:
      return one_of_words(orderings());
    case key_value::extent:
      return words_or(one_of_words(extents()), refer_to("quantity_bytes"));
    case key_value::targets:
      return target_schema(false);
    case key_value::origins:
      return target_schema(true);
    case key_value::quantity:
    case key_value::range:
    case key_value::function:
    case key_value::lua_undo:
    case key_value::target:
      break;
  }
  return json_tree::object();
}

json_tree key_schema(const key_entry& k) {
  std::string says(k.says);
  if (!k.otherwise.empty()) says += "; default: " + std::string(k.otherwise);
  return value_schema(k).add("description", says);
}

// A map with the keys of a place and no others.
json_tree map_schema(place in) {
  json_tree properties = json_tree::object();
  json_tree required = json_tree::array();
  for (const key_entry* k : keys_of(in, spoken_in::yaml)) {
    properties.add(k->name, key_schema(*k));
    if (k->needed) required.push(k->name);
  }
  json_tree schema = json_tree::object({{"type", "object"}, {"properties", properties}});
  if (!required.empty()) schema.add("required", required);
  return schema.add("additionalProperties", false);
}

// Exactly one of the keys is there.
json_tree one_of_keys(const std::vector<std::string_view>& names) {
  json_tree choices = json_tree::array();
  for (const std::string_view name : names) {
    choices.push(json_tree::object({{"required", names_array({name})}}));
  }
  return choices;
}

// Applies when a key is there and holds one of the values.
json_tree when(std::string_view key, const std::vector<std::string_view>& values) {
  return json_tree::object(
      {{"properties",
        json_tree::object({{key, json_tree::object({{"enum", names_array(values)}})}})},
       {"required", names_array({key})}});
}

// Of the metrics of that unit, those that may pass the whole or the others.
void add_limits(const word<unit>& u, bool may_pass, json_tree& rules) {
  std::vector<std::string_view> names;
  for (const metric_entry& m : metrics()) {
    if (m.measured_in == u.value && may_pass_the_whole(m) == may_pass) names.push_back(m.name);
  }
  if (names.empty()) return;
  json_tree limits = json_tree::object();
  for (const word<comparison>& c : comparisons()) {
    if (!suits(c.value, u.value)) {
      limits.add(c.name, false);
      continue;
    }
    const bool ranged = c.value == comparison::within || c.value == comparison::outside;
    limits.add(c.name, refer_to(ranged ? "range_" + std::string(u.name)
                                       : value_definition(u.value, may_pass)));
  }
  rules.push(json_tree::object(
      {{"if", when("metric", names)}, {"then", json_tree::object({{"properties", limits}})}}));
}

// How each metric is compared follows from its unit.
json_tree comparison_schema() {
  json_tree rules = json_tree::array();
  for (const word<unit>& u : measures()) {
    add_limits(u, false, rules);
    add_limits(u, true, rules);
  }
  return map_schema(place::comparison)
      .add("oneOf", one_of_keys(names_of(comparisons())))
      .add("allOf", rules);
}

json_tree group_schema() {
  std::vector<std::string_view> lists;
  for (const key_entry* k : keys_of(place::group, spoken_in::yaml)) {
    if (k->holds == key_value::condition_list) lists.push_back(k->name);
  }
  return map_schema(place::group).add("oneOf", one_of_keys(lists));
}

json_tree condition_schema() {
  const json_tree is_group = json_tree::object(
      {{"anyOf", one_of_keys({row_of(policy_key::all_of).name, row_of(policy_key::any_of).name})}});
  return json_tree::object(
      {{"if", is_group}, {"then", refer_to("group")}, {"else", refer_to("comparison")}});
}

json_tree action_schema() {
  std::vector<std::string_view> acts;
  for (const word<verb>& w : verbs()) {
    if (find_yaml_key(place::action, w.name) != nullptr) acts.push_back(w.name);
  }
  const json_tree needs_target = names_array({"to"});
  return map_schema(place::action)
      .add("oneOf", one_of_keys(acts))
      .add("dependentRequired", json_tree::object({{"move", needs_target},
                                                   {"spill", needs_target},
                                                   {"from", names_array({"move"})},
                                                   {"keep_tokens", names_array({"spill"})}}));
}

// Conditions of a policy use the metrics that its objects have.
json_tree policy_map_schema() {
  json_tree rules = json_tree::array();
  for (const word<scope>& s : scopes()) {
    const std::string definition = "metrics_of_" + std::string(s.name);
    json_tree conditions = json_tree::object();
    for (const key_entry* k : keys_of(place::policy, spoken_in::yaml)) {
      if (k->holds == key_value::condition) conditions.add(k->name, refer_to(definition));
    }
    rules.push(json_tree::object({{"if", when("for_each", {s.name})},
                                  {"then", json_tree::object({{"properties", conditions}})}}));
  }
  for (const word<scope>& s : scopes()) {
    if (s.value == scope::tenant) continue;
    rules.push(json_tree::object(
        {{"if", when("for_each", {s.name})},
         {"then", json_tree::object({{"properties", json_tree::object({{"quota", false}})}})}}));
  }
  return map_schema(place::policy).add("allOf", rules);
}

// Conditions, single or in a list, whose metrics objects of that scope have.
json_tree metrics_of(scope judged) {
  json_tree names = json_tree::array();
  for (const metric_entry& m : metrics()) {
    if (offers(judged, m)) names.push(m.name);
  }
  const json_tree single =
      json_tree::object({{"metric", json_tree::object({{"enum", std::move(names)}})}});
  json_tree properties = single;
  for (const policy_key list : {policy_key::all_of, policy_key::any_of}) {
    properties.add(row_of(list).name,
                   json_tree::object({{"items", json_tree::object({{"properties", single}})}}));
  }
  return json_tree::object({{"properties", properties}});
}

}  // namespace

std::string policy_schema() {
  json_tree definitions = json_tree::object({{"policy", policy_map_schema()},
                                             {"condition", condition_schema()},
                                             {"comparison", comparison_schema()},
                                             {"group", group_schema()},
                                             {"action", action_schema()},
                                             {"limit", map_schema(place::limit)},
                                             {"flapping", map_schema(place::flapping)},
                                             {"quota", map_schema(place::quota)}});
  for (const word<scope>& s : scopes()) {
    definitions.add("metrics_of_" + std::string(s.name), metrics_of(s.value));
  }
  define_values(definitions);
  json_tree schema =
      json_tree::object({{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                         {"title", "Terrane policies"},
                         {"$comment", "Made by `terranectl policy schema`; do not edit."}});
  const json_tree file = map_schema(place::file);
  return schema.add("$ref", "#/$defs/file").add("$defs", definitions.add("file", file)).written();
}

}  // namespace terrane::policies::reference
