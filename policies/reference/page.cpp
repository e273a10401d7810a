#include <algorithm>
#include <array>

#include "policies/reference/reference.hpp"
#include "policies/rule/rule.hpp"
#include "policies/scenario/keys.hpp"
#include "policies/scenario/settings.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/lua_words.hpp"

namespace terrane::policies::reference {
namespace {

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

// A cell must not hold what ends it.
std::string cell(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? std::string("\\|") : std::string(1, c);
  return safe;
}

class table {
 public:
  explicit table(std::initializer_list<std::string_view> titles) {
    row(std::vector<std::string>(titles.begin(), titles.end()));
    text_ += "|";
    for (std::size_t i = 0; i < titles.size(); ++i) text_ += "---|";
    text_ += "\n";
  }
  void row(const std::vector<std::string>& cells) {
    text_ += "|";
    for (const std::string& c : cells) text_ += " " + cell(c) + " |";
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <class Words>
std::string list_of_words(const Words& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : ", ") + code(w.name);
  return text;
}

template <class Words>
std::string words_table(std::string_view title, const Words& words) {
  table t({title, "means"});
  for (const auto& w : words) t.row({code(w.name), std::string(w.says)});
  return t.text() + "\n";
}

// What a key holds, for people.
std::string value_text(const key_entry& k) {
  switch (k.holds) {
    case key_value::version:
      return code(policy_version);
    case key_value::policy_list:
      return "a list of policies";
    case key_value::policy_name:
      return "1 to 64 letters, digits, `-`, `_` and `.`";
    case key_value::scope:
      return list_of_words(scopes());
    case key_value::mode:
      return list_of_words(modes());
    case key_value::names:
      return "a name or pattern, or a list of them";
    case key_value::whole_number:
      return "a whole number from " + std::to_string(k.least) + " to " + std::to_string(k.most);
    case key_value::condition:
      return "a comparison, or a group of them";
    case key_value::condition_list:
      return "1 to " + std::to_string(max_terms) + " comparisons";
    case key_value::duration:
      return "a time with its unit, or 0";
    case key_value::bytes:
      return "bytes";
    case key_value::limit_map:
      return "`bytes` and `per`";
    case key_value::flapping_map:
      return "`times` and `per`";
    case key_value::quota_map:
      return "`bytes` and `on`";
    case key_value::kv_place:
      return "`all`, `gpu`, `cpu`, a driver, a device's name or a pattern";
    case key_value::action_map:
      return "what is done, below";
    case key_value::undo:
      return list_of_words(undos());
    case key_value::function:
      return "`function (object, out)`";
    case key_value::lua_undo:
      return "such a function, or `\"restore\"`";
    case key_value::metric:
      return "a metric's name, below";
    case key_value::quantity:
      return "a quantity in the metric's unit";
    case key_value::truth:
      return "`true` or `false`";
    case key_value::range:
      return "a range of times of day or days";
    case key_value::parts:
      return "which parts, below, or a pattern over their names";
    case key_value::spilling:
      return list_of_words(spillings());
    case key_value::kv:
      return code("kv");
    case key_value::whole_device:
      return code("device");
    case key_value::ordering:
      return "an order, below";
    case key_value::extent:
      return list_of_words(extents()) + " or bytes";
    case key_value::targets:
      return "a target, below, a driver, a device's name or pattern, or a list to try in order";
    case key_value::origins:
      return "`cpu`, a driver, a device's name or pattern, or a list of them";
    case key_value::target:
      return "a target, below, a device or its name";
  }
  return "";
}

std::string keys_table(place in, spoken_in language) {
  table t({"key", "holds", "says", "needed, or default", "such as"});
  for (const key_entry* k : keys_of(in, language)) {
    // An example that is written in YAML is none in Lua.
    const bool shown = language == spoken_in::yaml || k->language == language;
    t.row({code(k->name), value_text(*k), std::string(k->says),
           k->needed ? "**needed**" : std::string(k->otherwise), shown ? code(k->example) : ""});
  }
  return t.text() + "\n";
}

std::string yaml_section() {
  std::string text = "## YAML\n\nA file:\n\n" + keys_table(place::file, spoken_in::yaml);
  text += "### A policy\n\n" + keys_table(place::policy, spoken_in::yaml);
  text += "### A comparison\n\nA metric, and one of `" + std::string(name_of(comparison::above)) +
          "` to `" + std::string(name_of(comparison::outside)) +
          "`, whichever suits its unit.\n\n" + keys_table(place::comparison, spoken_in::yaml);
  text += "### A group of comparisons\n\nOne of the two lists.\n\n" +
          keys_table(place::group, spoken_in::yaml);
  text +=
      "### `do`\n\nOne verb, and how it is done.\n\n" + keys_table(place::action, spoken_in::yaml);
  text += "### `limit`\n\n" + keys_table(place::limit, spoken_in::yaml);
  text += "### `flapping`\n\n" + keys_table(place::flapping, spoken_in::yaml);
  text += "### `quota`\n\n" + keys_table(place::quota, spoken_in::yaml);
  return text;
}

std::string words_section() {
  std::string text = "## Words\n\n";
  text += words_table("for each", scopes());
  text += words_table("mode", modes());
  text += words_table("parts", selections());
  text += words_table("order", orderings());
  text += words_table("spill", spillings());
  text += words_table("until", extents());
  text += words_table("target", targets());
  text += "A driver, ";
  for (const std::string_view name : drivers())
    text += code(name) + (name == drivers().back() ? "" : " or ");
  text += ", stands for each of its devices: `vulkan` is `\"vulkan:*\"`.\n\n";
  text += words_table("undo", undos());
  text += words_table("verb", verbs());
  text += words_table("kind of device", device_kinds());
  text += words_table("kind of part", part_kinds());
  return text;
}

std::string metrics_section() {
  std::string text =
      "## Metrics\n\nMetrics of the host and the model may be used for every object; others for "
      "the "
      "objects that have them (`gpu` and `cpu` are devices). A reading that is stale or absent "
      "decides nothing.\n\n";
  table t({"metric", "of a", "measured in", "says", "a limit", "bytes reach it"});
  for (const metric_entry& m : metrics()) {
    t.row({code(m.name), std::string(name_of(m.belongs_to)), std::string(name_of(m.measured_in)),
           std::string(m.says), code(m.example), m.bytes_until != nullptr ? "yes" : ""});
  }
  text += t.text() + "\n`until: leave` needs a metric that bytes reach.\n\n### Units\n\n";
  table u({"measured in", "says", "compared with", "symbols"});
  for (const word<unit>& w : measures()) {
    std::string compared, symbols;
    for (const word<comparison>& c : comparisons()) {
      if (suits(c.value, w.value)) compared += (compared.empty() ? "" : ", ") + code(c.name);
    }
    for (const unit_entry& e : units()) {
      if (e.measured_in == w.value) symbols += (symbols.empty() ? "" : ", ") + code(e.symbol);
    }
    u.row({std::string(w.name), std::string(w.says), compared, symbols});
  }
  return text + u.text() + "\n";
}

std::string signature(const lua_member& m) {
  if (m.kind == member_kind::field) return m.name;
  std::string takes;
  for (const lua_parameter& p : m.takes) {
    takes += (takes.empty() ? "" : ", ") + std::string(p.name) + (p.optional ? "?" : "") + ": " +
             std::string(p.type);
  }
  return (m.kind == member_kind::method ? ":" : "") + m.name + "(" + takes + ")";
}

std::string members_table(lua_object of) {
  table t({"name", "gives", "says", "such as"});
  for (const lua_member& m : lua_members(of)) {
    t.row({code(signature(m)), code(m.gives), m.says, code(m.example)});
  }
  return t.text() + "\n";
}

std::string lua_section() {
  std::string text =
      "## Lua\n\n`policy \"name\" { ... }` with these keys. A type that ends in `?` may be nil, as "
      "readings are that are stale or absent.\n\n" +
      keys_table(place::policy, spoken_in::lua) +
      "Examples are for a policy `for_each = \"gpu\"`, with `plan = function (gpu, out)`.\n\n";
  table types({"type", "stands for", "says"});
  for (const named_type& t : named_types()) {
    const bool of_metrics = t.name == "metric_name";
    types.row({code(t.name), of_metrics ? "a metric of the table above" : code(t.stands_for),
               std::string(t.says)});
  }
  text += types.text() + "\n### Options of `out:spill`\n\n" +
          keys_table(place::spill_options, spoken_in::lua);
  for (const word<lua_object>& o : lua_objects()) {
    const bool global = o.value == lua_object::global;
    text +=
        global ? "### Globals\n\n" : "### " + code(o.name) + "\n\n" + std::string(o.says) + "\n\n";
    if (const std::optional<lua_object> item = item_of(o.value)) {
      text += "`#list` counts, `list[1]` is the first " + std::string(name_of(*item)) +
              ", `for one in list do` walks. Each method gives a new list.\n\n";
    }
    text += members_table(o.value);
  }
  return text;
}

std::string value_text(const scenario::test_key_entry& k) {
  using scenario::test_value;
  switch (k.holds) {
    case test_value::text:
      return "a text";
    case test_value::texts:
      return "a text, or a list of them";
    case test_value::duration:
      return "a time with its unit";
    case test_value::bytes:
      return "bytes";
    case test_value::tokens:
      return "tokens";
    case test_value::whole_number:
      return "a whole number from " + std::to_string(k.least) + " to " + std::to_string(k.most);
    case test_value::machine:
      return "a machine, below";
    case test_value::devices:
    case test_value::layers:
    case test_value::parts:
    case test_value::sessions:
      return "one, below, or a list of them";
    case test_value::host:
      return "settings of the host, below";
    case test_value::steps:
      return "a list of steps, below";
    case test_value::changes:
      return "settings, below, by the name of whose they are";
    case test_value::swings:
      return "`every`, and lists of settings by the name of whose they are";
    case test_value::moves:
      return "a text, a list of them, or counts, below";
    case test_value::texts_by_name:
      return "a text, or a list of them, by name";
    case test_value::request:
      return "a request, below";
  }
  return "";
}

std::string settings_table(scenario::subject_is what) {
  table t({"setting", "measured in", "says"});
  for (const scenario::setting_word& w : scenario::setting_words(what)) {
    const bool measured = w.holds == scenario::setting_value::quantity;
    t.row({code(w.name), measured ? std::string(name_of(w.measured_in)) : "", std::string(w.says)});
  }
  return t.text() + "\n";
}

std::string tests_section() {
  using scenario::subject_is;
  std::string text =
      "## Tests\n\n`NAME.test.yaml` tests the policy file NAME beside it; "
      "`policies/scenario/README.md` tells how.\n\n";
  for (const word<scenario::test_place>& p : scenario::test_places()) {
    text += "### In a test: " + std::string(p.says) + "\n\n";
    table t({"key", "holds", "says", ""});
    for (const scenario::test_key_entry* k : scenario::keys_of(p.value)) {
      t.row({code(k->name), value_text(*k), std::string(k->says), k->needed ? "**needed**" : ""});
    }
    text += t.text() + "\n";
  }
  text += "### Settings of a device\n\n" + settings_table(subject_is::device);
  text += "### Settings of the host\n\n" + settings_table(subject_is::host);
  text += "### Settings of a session\n\n" + settings_table(subject_is::session);
  return text + "### Settings of parts\n\n" + settings_table(subject_is::parts);
}

}  // namespace

std::string page() {
  return "# Reference of policies\n\n"
         "Made by `terranectl policy reference` from the rows in `policies/vocabulary/`; do not "
         "edit.\n`policies/README.md` explains the language. `terranectl policy schema` and "
         "`terranectl policy stubs`\nprint the same for editors; they are installed in "
         "`share/terrane/reference`.\n\n" +
         yaml_section() + words_section() + metrics_section() + lua_section() + tests_section();
}

std::span<const made_file> made_files() {
  static constexpr std::array<made_file, 4> files = {
      {{"REFERENCE.md", page},
       {"reference/policy.schema.json", policy_schema},
       {"reference/test.schema.json", test_schema},
       {"reference/terrane.lua", lua_stubs}}};
  return files;
}

}  // namespace terrane::policies::reference
