#include "policies/vocabulary/lua_words.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "policies/vocabulary/lua_rows.hpp"

namespace terrane::policies {
namespace {

constexpr word<lua_object> object_table[] = {
    {lua_object::global, "global", "what is named without a receiver"},
    {lua_object::device, "device", "a device as it was when the plan began"},
    {lua_object::vram, "vram", "a device's memory, whatever it is made of"},
    {lua_object::part, "part", "a part of the model"},
    {lua_object::session, "session", "a session"},
    {lua_object::kv, "kv", "a session's KV cache"},
    {lua_object::tenant, "tenant", "a user who has sessions"},
    {lua_object::host, "host", "the host"},
    {lua_object::device_list, "device_list", "a list of devices"},
    {lua_object::part_list, "part_list", "a list of parts"},
    {lua_object::session_list, "session_list", "a list of sessions"},
    {lua_object::tenant_list, "tenant_list", "a list of tenants"},
    {lua_object::condition, "condition", "what 'enter', 'leave' and 'emergency' hold"},
    {lua_object::recorder, "recorder", "the 'out' of a plan: it writes down what the plan wants"},
    {lua_object::string_library, "stringlib", "Lua's functions of texts; also methods of texts"},
    {lua_object::table_library, "tablelib", "Lua's functions of lists"},
    {lua_object::math_library, "mathlib", "Lua's functions of numbers"},
};

constexpr auto field = member_kind::field;
constexpr auto method = member_kind::method;
constexpr auto function = member_kind::function;
constexpr auto device = lua_object::device;
constexpr auto part = lua_object::part;
constexpr auto session = lua_object::session;
constexpr auto kv = lua_object::kv;
constexpr auto tenant = lua_object::tenant;
constexpr auto recorder = lua_object::recorder;
constexpr auto global = lua_object::global;

constexpr lua_parameter reason = {"reason", "string"};

constexpr lua_row row_table[] = {
    {global,
     "policy",
     function,
     {{{"name", "string"}}},
     "fun(definition: policy_table)",
     "defines a policy: policy \"name\" { ... }",
     ""},
    {global,
     "all_of",
     function,
     {{{"conditions", "condition[]"}}},
     "condition",
     "met while all of up to 8 are",
     "all_of { above(\"temp_c\", 85), below(\"power_w\", 200) }"},
    {global,
     "any_of",
     function,
     {{{"conditions", "condition[]"}}},
     "condition",
     "met while one of up to 8 is",
     "any_of { above(\"temp_c\", 85), is(\"throttle.heat\") }"},
    {global, "devices", function, {}, "device_list", "all devices", "devices()"},
    {global, "parts", function, {}, "part_list", "all parts of the model", "parts()"},
    {global, "sessions", function, {}, "session_list", "all sessions", "sessions()"},
    {global, "tenants", function, {}, "tenant_list", "all users who have sessions", "tenants()"},
    {global, "host", function, {}, "host", "the host", "host()"},

    {device, "name", field, {}, "string", "its name, such as vulkan:<uuid>", ""},
    {device, "kind", field, {}, "device_kind", "what it is", ""},
    {device, "vram", field, {}, "vram", "its memory", ""},
    {device,
     "room",
     field,
     {},
     "number?",
     "bytes that a plan may use: free ones less the device's reserve",
     ""},
    {device, "parts", method, {}, "part_list", "the parts that are on it", "gpu:parts()"},
    {device, "residents", method, {}, "part_list", "the parts that are on it", "gpu:residents()"},
    {device,
     "sessions",
     method,
     {},
     "session_list",
     "the sessions with KV on it",
     "gpu:sessions()"},

    {part, "name", field, {}, "string", "its name, such as layer.3.attn", ""},
    {part, "kind", field, {}, "part_kind", "what it is", ""},
    {part, "layer", field, {}, "integer", "its layer; -1 for the embedding and the head", ""},
    {part, "device", field, {}, "string", "the name of the device that it is on", ""},
    {part, "bytes", field, {}, "integer", "what moves with it: weights and the KV beside it", ""},
    {part, "weight_bytes", field, {}, "integer", "its weights", ""},
    {part, "kv_bytes", field, {}, "integer", "its KV cache on its device", ""},
    {part, "movable", field, {}, "boolean", "whether it can be moved at all", ""},
    {part, "pinned", field, {}, "boolean", "whether the administrator wants it to stay", ""},
    {part,
     "age_s",
     field,
     {},
     "number?",
     "seconds since its last move; nil when it never moved",
     ""},

    {session, "id", field, {}, "string", "its name", ""},
    {session, "tenant", field, {}, "string", "the user whose it is", ""},
    {session, "context_tokens", field, {}, "integer", "tokens in its context", ""},
    {session, "idle_s", field, {}, "number", "seconds since its last token", ""},
    {session, "kv", field, {}, "kv", "its KV cache", ""},
    {session,
     "home",
     field,
     {},
     "string",
     "where its KV belongs: a device, or empty for beside the parts that use it",
     ""},

    {kv, "bytes", field, {}, "integer", "its bytes, wherever they are", ""},
    {kv,
     "reserved_bytes",
     field,
     {},
     "integer",
     "of these, what its running reply has reserved and not written yet",
     ""},
    {kv,
     "bytes_on",
     method,
     {{{"device", "device|string"}}},
     "integer",
     "its bytes on one device",
     "sessions()[1].kv:bytes_on(gpu)"},

    {tenant, "name", field, {}, "string", "the user's name", ""},
    {tenant, "kv_bytes", field, {}, "number?", "the KV cache of all the user's sessions", ""},
    {tenant, "gpu_kv_bytes", field, {}, "number?", "of this, what is on GPUs", ""},
    {tenant,
     "reserved_bytes",
     field,
     {},
     "number?",
     "of this, what running replies have reserved and not written yet",
     ""},
    {tenant,
     "sessions",
     method,
     {},
     "session_list",
     "the user's sessions",
     "tenants()[1]:sessions()"},

    {lua_object::condition,
     "held",
     method,
     {{{"time", "string"}}},
     "condition",
     "the same, but met once it has been so for that long",
     "above(\"vram.used_ratio\", \"92%\"):held \"5s\""},

    {recorder,
     "move",
     method,
     {{{"part", "part|string"}, {"to", "target"}, reason}},
     "",
     "",
     "out:move(gpu:parts()[1], \"cpu\", \"others need the memory\")"},
    {recorder,
     "spill",
     method,
     {{{"kv", "kv|session|device"}, {"options", "spill_options"}, reason}},
     "",
     "",
     "out:spill(sessions()[1].kv, { keep_tokens = 1024, to = \"host\" }, \"idle\")"},
    {recorder,
     "fetch",
     method,
     {{{"kv", "kv|session"}, {"to", "target?"}, reason}},
     "",
     "",
     "out:fetch(sessions()[1].kv, nil, \"woke up\")"},
    {recorder,
     "restore",
     method,
     {{{"object", "any"}, reason}},
     "",
     "",
     "out:restore(gpu, \"cool again\")"},
    {recorder, "decline", method, {{reason}}, "", "", "out:decline \"no cool device has room\""},
    {recorder, "yield", method, {{reason}}, "", "", "out:yield(\"a game wants the card\")"},
};

std::vector<lua_parameter> parameters_of(const lua_row& row) {
  std::vector<lua_parameter> takes;
  std::ranges::copy_if(row.takes, std::back_inserter(takes),
                       [](const lua_parameter& p) { return !p.name.empty(); });
  return takes;
}

lua_member member_of(const lua_row& row) {
  std::string says(row.says);
  // A plan's verbs say the same in both languages.
  if (row.of == recorder) says = std::ranges::find(verbs(), row.name, &word<verb>::name)->says;
  return {row.of,
          std::string(row.name),
          row.kind,
          parameters_of(row),
          std::string(row.gives),
          std::move(says),
          std::string(row.example)};
}

// What fields of an object begin with as metrics; nothing where they are none.
std::optional<std::string_view> metric_prefix(lua_object of) {
  switch (of) {
    case lua_object::device:
      return "";
    case lua_object::vram:
      return "vram.";
    case lua_object::host:
      return "host.";
    default:
      return std::nullopt;
  }
}

bool shows(lua_object of, const metric_entry& m) {
  const std::optional<std::string_view> prefix = metric_prefix(of);
  if (!prefix || !m.name.starts_with(*prefix)) return false;
  const scope wanted = of == lua_object::host ? scope::host : scope::device;
  const bool elsewhere = of == lua_object::device && m.name.starts_with("vram.");
  return m.belongs_to == wanted && !elsewhere;
}

void add_metrics(lua_object of, std::vector<lua_member>& to) {
  for (const metric_entry& m : metrics()) {
    if (!shows(of, m)) continue;
    to.push_back({of,
                  std::string(m.name.substr(metric_prefix(of)->size())),
                  field,
                  {},
                  m.measured_in == unit::truth ? "boolean?" : "number?",
                  std::string(m.says),
                  ""});
  }
}

lua_object list_of(list_kind kind) {
  switch (kind) {
    case list_kind::parts:
      return lua_object::part_list;
    case list_kind::devices:
      return lua_object::device_list;
    case list_kind::sessions:
      return lua_object::session_list;
    case list_kind::tenants:
      return lua_object::tenant_list;
  }
  return lua_object::part_list;
}

std::vector<lua_parameter> parameters_of(const selector_entry& s) {
  if (s.argument == argument_kind::none) return {};
  if (s.argument == argument_kind::number) return {{"number", "number"}};
  if (s.id == selector::of_kind) return {{"kind", "part_kind"}};
  const bool of_device = s.id == selector::on || s.id == selector::except;
  return {{"name", of_device ? "device|string" : "string"}};
}

void add_selectors(lua_object of, std::vector<lua_member>& to) {
  for (const selector_entry& s : selectors()) {
    if (list_of(s.of) != of) continue;
    const std::string gives =
        s.gives_one ? std::string(name_of(*item_of(of))) + "?" : std::string(name_of(of));
    to.push_back({of, std::string(s.name), method, parameters_of(s), gives, std::string(s.says),
                  std::string(s.example)});
  }
}

std::vector<lua_parameter> parameters_of(comparison c) {
  switch (c) {
    case comparison::above:
    case comparison::below:
      return {{"metric", "metric_name"}, {"limit", "number|string"}};
    case comparison::is:
      return {{"metric", "metric_name"}, {"truth", "boolean", true}};
    case comparison::within:
    case comparison::outside:
      return {{"metric", "metric_name"}, {"range", "string"}};
  }
  return {};
}

std::string example_of(const word<comparison>& w) {
  const auto suited = std::ranges::find_if(
      metrics(), [&](const metric_entry& m) { return suits(w.value, m.measured_in); });
  const std::string call = std::string(w.name) + "(\"" + std::string(suited->name) + "\", ";
  return w.value == comparison::is ? call + "true)"
                                   : call + "\"" + std::string(suited->example) + "\")";
}

void add_derived_globals(std::vector<lua_member>& to) {
  for (const word<comparison>& w : comparisons()) {
    to.push_back({global, std::string(w.name), function, parameters_of(w.value), "condition",
                  "a condition: " + std::string(w.says), example_of(w)});
  }
  for (const unit_entry& u : units()) {
    if (!has_function(u)) continue;
    const std::string symbol(u.symbol);
    to.push_back({global,
                  symbol,
                  function,
                  {{"number", "number"}},
                  "number",
                  "so many " + symbol + ", in bytes",
                  symbol + "(4)"});
  }
}

std::vector<lua_member> collect(lua_object of) {
  std::vector<lua_member> all;
  for (const lua_row& row : row_table) {
    if (row.of == of) all.push_back(member_of(row));
  }
  if (of == global) add_derived_globals(all);
  add_metrics(of, all);
  add_selectors(of, all);
  for (const lua_row& row : lua_library_rows()) {
    if (row.of == of) all.push_back(member_of(row));
  }
  return all;
}

// "a"|"b": one of the words.
template <class Words>
std::string one_of(const Words& words) {
  std::string type;
  for (const auto& w : words) type += (type.empty() ? "\"" : "|\"") + std::string(w.name) + "\"";
  return type;
}

std::vector<named_type> collect_types() {
  return {{"metric_name", one_of(metrics()), "the name of a metric"},
          {"device_kind", one_of(device_kinds()), "what a device is"},
          {"part_kind", one_of(part_kinds()), "what a part is"},
          {"scope_name", one_of(scopes()), "what a policy is judged for"},
          {"mode_name", one_of(modes()), "whether a policy acts"},
          {"spilling", one_of(spillings()), "what a spill takes"},
          {"target", one_of(targets()) + "|device|string", "a device, its name, or where to look"},
          {"judged", "device|session|tenant|part|host", "an object that a policy is judged for"}};
}

}  // namespace

std::span<const word<lua_object>> lua_objects() { return object_table; }
std::string_view name_of(lua_object o) {
  return std::ranges::find(object_table, o, &word<lua_object>::value)->name;
}

const std::vector<lua_member>& lua_members(lua_object of) {
  static const auto all = [] {
    std::vector<std::vector<lua_member>> table;
    for (const word<lua_object>& o : object_table) table.push_back(collect(o.value));
    return table;
  }();
  return all[static_cast<std::size_t>(of)];
}

const lua_member* find_member(lua_object of, std::string_view name) {
  for (const lua_member& m : lua_members(of)) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

std::vector<std::string_view> member_names(lua_object of) {
  std::vector<std::string_view> names;
  for (const lua_member& m : lua_members(of)) names.push_back(m.name);
  return names;
}

const metric_entry* metric_field(lua_object of, std::string_view name) {
  const std::optional<std::string_view> prefix = metric_prefix(of);
  if (!prefix) return nullptr;
  for (const metric_entry& m : metrics()) {
    if (m.name.ends_with(name) && m.name.size() == prefix->size() + name.size() && shows(of, m))
      return &m;
  }
  return nullptr;
}

const std::vector<named_type>& named_types() {
  static const std::vector<named_type> all = collect_types();
  return all;
}

std::optional<lua_object> item_of(lua_object list) {
  switch (list) {
    case lua_object::device_list:
      return lua_object::device;
    case lua_object::part_list:
      return lua_object::part;
    case lua_object::session_list:
      return lua_object::session;
    case lua_object::tenant_list:
      return lua_object::tenant;
    default:
      return std::nullopt;
  }
}

}  // namespace terrane::policies
