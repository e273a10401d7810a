#include "policies/reference/reference.hpp"
#include "policies/reference/value_schemas.hpp"
#include "policies/scenario/keys.hpp"
#include "policies/scenario/settings.hpp"

namespace terrane::policies::reference {
namespace {

using scenario::keys_of;
using scenario::setting_value;
using scenario::setting_word;
using scenario::subject_is;
using scenario::test_key_entry;
using scenario::test_place;
using scenario::test_value;

json_tree any_of(std::vector<json_tree> choices) {
  return json_tree::object({{"anyOf", json_tree::array(std::move(choices))}});
}

json_tree list_of(const json_tree& item) {
  return json_tree::object({{"type", "array"}, {"items", item}});
}

json_tree one_or_more(const json_tree& item) { return any_of({item, list_of(item)}); }

json_tree text() { return json_tree::object({{"type", json_tree::array({"string", "number"})}}); }

json_tree map_with(const json_tree& properties, const json_tree& others) {
  return json_tree::object(
      {{"type", "object"}, {"properties", properties}, {"additionalProperties", others}});
}

json_tree setting_schema(const setting_word& w) {
  switch (w.holds) {
    case setting_value::quantity:
      return refer_to(value_definition(w.measured_in, w.may_pass_the_whole));
    case setting_value::truth:
      return refer_to("quantity_truth");
    case setting_value::text:
    case setting_value::device:
      return text();
  }
  return text();
}

constexpr word<subject_is> subject_table[] = {
    {subject_is::host, "host", "of the host"},
    {subject_is::device, "device", "of a device"},
    {subject_is::session, "session", "of a session"},
    {subject_is::parts, "parts", "of parts"},
};

// Settings that change, or lists of them that take turns.
json_tree settings_map(subject_is what, bool in_turns) {
  json_tree properties = json_tree::object();
  for (const setting_word& w : setting_words(what)) {
    json_tree value = setting_schema(w);
    if (in_turns) value = list_of(value).add("minItems", 2);
    properties.add(w.name, value.add("description", w.says));
  }
  return map_with(properties, false);
}

// By the name of whose they are, which no schema knows: a device's, a session's or parts'.
json_tree settings_by_name(std::string_view kind, json_tree properties) {
  std::vector<json_tree> others;
  for (const word<subject_is>& s : subject_table) {
    const json_tree settings = refer_to(std::string(s.name) + std::string(kind));
    if (s.value == subject_is::host) {
      properties.add(s.name, settings);
    } else {
      others.push_back(settings);
    }
  }
  return map_with(properties, any_of(std::move(others)));
}

json_tree value_schema(const test_key_entry& k) {
  switch (k.holds) {
    case test_value::text:
      return text();
    case test_value::texts:
      return one_or_more(text());
    case test_value::duration:
      return refer_to("duration");
    case test_value::bytes:
      return refer_to("quantity_bytes");
    case test_value::tokens:
      return refer_to("quantity_tokens");
    case test_value::whole_number:
      return json_tree::object({{"type", "integer"}, {"minimum", k.least}, {"maximum", k.most}});
    case test_value::machine:
      return refer_to("machine");
    case test_value::devices:
      return one_or_more(refer_to("device"));
    case test_value::layers:
      return one_or_more(refer_to("layers"));
    case test_value::parts:
      return one_or_more(refer_to("part"));
    case test_value::sessions:
      return one_or_more(refer_to("session"));
    case test_value::host:
      return refer_to("host_settings");
    case test_value::steps:
      return list_of(refer_to("step")).add("minItems", 1);
    case test_value::changes:
      return settings_by_name("_settings", json_tree::object());
    case test_value::swings:
      return refer_to("swing");
    case test_value::moves:
      return any_of({text(), list_of(text()), refer_to("counts")});
    case test_value::texts_by_name:
      return map_with(json_tree::object(), one_or_more(text()));
    case test_value::request:
      return refer_to("request");
  }
  return json_tree::object();
}

json_tree properties_of(test_place in, json_tree& required) {
  json_tree properties = json_tree::object();
  for (const test_key_entry* k : keys_of(in)) {
    properties.add(k->name, value_schema(*k).add("description", k->says));
    if (k->needed) required.push(k->name);
  }
  return properties;
}

json_tree place_schema(test_place in) {
  json_tree required = json_tree::array();
  json_tree properties = properties_of(in, required);
  // What may be set later may be given from the start.
  if (in == test_place::device || in == test_place::session) {
    const bool device = in == test_place::device;
    for (const setting_word& w : setting_words(device ? subject_is::device : subject_is::session)) {
      const bool is_key = w.name == row_of(scenario::test_key::device_total).name;
      if (!is_key) properties.add(w.name, setting_schema(w).add("description", w.says));
    }
  }
  json_tree schema = in == test_place::swing ? settings_by_name("_turns", properties)
                                             : map_with(properties, false);
  if (!required.empty()) schema.add("required", required);
  if (in == test_place::counts) {
    json_tree either = json_tree::array();
    for (const test_key_entry* k : keys_of(in)) {
      either.push(json_tree::object({{"required", names_array({k->name})}}));
    }
    schema.add("anyOf", either);
  }
  return schema;
}

}  // namespace

std::string test_schema() {
  json_tree definitions = json_tree::object();
  for (const word<test_place>& p : scenario::test_places()) {
    definitions.add(p.name, place_schema(p.value).add("description", p.says));
  }
  for (const word<subject_is>& s : subject_table) {
    definitions.add(std::string(s.name) + "_settings", settings_map(s.value, false));
    definitions.add(std::string(s.name) + "_turns", settings_map(s.value, true));
  }
  define_values(definitions);
  return json_tree::object(
             {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Tests of Terrane policies"},
              {"$comment", "Made by `terranectl policy schema --tests`; do not edit."},
              {"$ref", "#/$defs/file"},
              {"$defs", definitions}})
      .written();
}

}  // namespace terrane::policies::reference
