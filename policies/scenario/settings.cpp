#include "policies/scenario/settings.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "policies/planner/propose.hpp"
#include "policies/vocabulary/metric_value.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/set_reading.hpp"

namespace terrane::policies::scenario {
namespace {

using yaml::map_reader;
using yaml::node;
using yaml::node_kind;

// A value as it was written: a quantity in the unit's base, or a text.
struct written {
  double number = 0;
  std::string text;
  metric_id metric{};  // of a reading
};

using setter = void (*)(machine& m, const std::string& who, const written& to, std::int64_t now_ms);

struct setting {
  setting_word word;
  setter set;
  bool of_a_metric = false;  // it is a reading
  metric_id metric = {};     // of a reading
};

constexpr setting device_settings[] = {
    {{setting_total, setting_value::quantity, unit::bytes, "the device's memory"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).total = to.number;
     }},
    {{setting_others, setting_value::quantity, unit::bytes, "memory that other programs use"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).others = to.number;
     }},
    {{"reserved", setting_value::quantity, unit::bytes, "memory that must stay free"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).state.vram_reserved = {to.number, 0, 1'000'000'000};
     }},
    {{"scratch", setting_value::quantity, unit::bytes,
      "memory that it takes beside its parts, once it has one"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).scratch = to.number;
     }},
    {{"expected_scratch", setting_value::quantity, unit::bytes,
      "what was expected of that before it had one"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).state.scratch_bytes = static_cast<std::uint64_t>(to.number);
     }},
    {{"weights_per_s", setting_value::quantity, unit::bytes,
      "bytes of weights that a token reads in a second, as measured"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).weights_per_s = to.number;
     }},
    {{"kv_per_s", setting_value::quantity, unit::bytes,
      "bytes of KV that a token reads in a second, as measured; default: as of weights"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.device(who).kv_per_s = to.number;
     }},
};

constexpr setting session_settings[] = {
    {{setting_tenant, setting_value::text, unit::count, "the user whose it is"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.session(who).tenant = to.text;
     }},
    {{"tokens", setting_value::quantity, unit::tokens, "tokens in its context"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.session(who).context_tokens = static_cast<std::uint64_t>(to.number);
     }},
    {{"reserved", setting_value::quantity, unit::bytes,
      "of its KV cache, what its reply has reserved and not written yet"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.reserve(who, to.number);
     }},
    {{"idle", setting_value::quantity, unit::seconds, "time since its last token"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.session(who).idle_s = to.number;
     }},
};

constexpr setting part_settings[] = {
    {{"device", setting_value::device, unit::bytes, "where it is: someone else moved it"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.part(who).device = to.text;
       m.part(who).placed_by_user = true;
     }},
    {{"kv", setting_value::quantity, unit::bytes, "the KV cache beside it"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.part(who).kv_bytes = static_cast<std::uint64_t>(to.number);
     }},
    {{"kv_most", setting_value::quantity, unit::bytes, "that cache when all contexts are full"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.part(who).kv_most_bytes = static_cast<std::uint64_t>(to.number);
     }},
    {{"pinned", setting_value::truth, unit::bytes, "whether the administrator wants it to stay"},
     [](machine& m, const std::string& who, const written& to, std::int64_t) {
       m.part(who).pinned = to.number != 0;
     }},
};

constexpr setting host_settings[] = {
    {{"promotes", setting_value::truth, unit::truth, "whether parts are promoted into room"},
     [](machine& m, const std::string&, const written& to, std::int64_t) {
       m.promotes = to.number != 0;
     }},
    {{"tokens_per_s", setting_value::quantity, unit::count, "tokens that replies get in a second"},
     [](machine& m, const std::string&, const written& to, std::int64_t) {
       m.tokens_per_s = to.number;
     }},
    {{"link", setting_value::quantity, unit::bytes,
      "bytes that move from any device to any other in a second, as measured"},
     [](machine& m, const std::string&, const written& to, std::int64_t) {
       m.link_bytes_per_s = to.number;
     }},
};

void set_device_reading(machine& m, const std::string& who, const written& to,
                        std::int64_t now_ms) {
  set_reading(m.device(who).state, to.metric, {to.number, now_ms});
}

void set_host_reading(machine& m, const std::string&, const written& to, std::int64_t now_ms) {
  set_reading(m.host, to.metric, {to.number, now_ms});
}

// Every reading that is measured, by the name of its metric. The machine adds up a device's memory
// itself.
std::vector<setting> readings_of(subject_is what) {
  constexpr std::string_view of_host = "host.";
  std::vector<setting> list;
  for (const metric_entry& m : metrics()) {
    if (what == subject_is::device && m.device_field != nullptr && !m.name.starts_with("vram.")) {
      list.push_back(
          {{m.name, setting_value::quantity, m.measured_in, m.says, may_pass_the_whole(m)},
           set_device_reading,
           true,
           m.id});
    }
    if (what == subject_is::host && m.host_field != nullptr && m.name.starts_with(of_host)) {
      list.push_back({{m.name.substr(of_host.size()), setting_value::quantity, m.measured_in,
                       m.says, may_pass_the_whole(m)},
                      set_host_reading,
                      true,
                      m.id});
    }
  }
  return list;
}

const std::vector<setting>& settings_for(subject_is what) {
  static const auto with_readings = [](std::span<const setting> own, subject_is of) {
    std::vector<setting> all(own.begin(), own.end());
    std::ranges::copy(readings_of(of), std::back_inserter(all));
    return all;
  };
  static const std::vector<setting> of_host = with_readings(host_settings, subject_is::host);
  static const std::vector<setting> of_device = with_readings(device_settings, subject_is::device);
  static const std::vector<setting> of_session(std::begin(session_settings),
                                               std::end(session_settings));
  static const std::vector<setting> of_parts(std::begin(part_settings), std::end(part_settings));
  switch (what) {
    case subject_is::host:
      return of_host;
    case subject_is::device:
      return of_device;
    case subject_is::session:
      return of_session;
    case subject_is::parts:
      return of_parts;
  }
  return of_parts;
}

std::string describe_subject(const subject& who) {
  return who.what == subject_is::host ? "the host" : "'" + who.name + "'";
}

// Why the text is no value of the setting, or nothing.
std::string read_value(const setting& s, const std::string& text, const machine& m, written& into) {
  into.text = text;
  if (s.word.holds == setting_value::quantity) {
    const parsed<double> number = s.of_a_metric ? parse_value(text, metric(s.metric))
                                                : parse_quantity(text, s.word.measured_in);
    if (!number) return number.error();
    into.number = *number;
  } else if (s.word.holds == setting_value::truth) {
    if (text != "true" && text != "false") return "'" + text + "' is neither true nor false";
    into.number = text == "true" ? 1 : 0;
  } else if (s.word.holds == setting_value::device) {
    std::vector<std::string_view> known;
    for (const machine_device& d : m.devices()) known.push_back(d.state.name);
    if (std::ranges::find(known, text) == known.end()) {
      return "the machine has no device '" + text + "'" + name_hint(text, known);
    }
  }
  return {};
}

std::optional<change> read_change(const setting& s, const subject& who, const node& value,
                                  const machine& m, map_reader& map) {
  const std::string key(s.word.name);
  if (value.kind != node_kind::scalar) {
    map.fault(value.where,
              "'" + key + "' must be a single value, not " + std::string(describe(value)));
    return std::nullopt;
  }
  written to;
  to.metric = s.metric;
  if (const std::string why = read_value(s, value.text, m, to); !why.empty()) {
    map.fault(value.where, "'" + key + "': " + why);
    return std::nullopt;
  }
  std::vector<std::string> names = {who.name};
  if (who.what == subject_is::parts) names = parts_like(m, who.name);
  return change{who.name + "." + key, [set = s.set, names = std::move(names), to = std::move(to)](
                                          machine& changed, std::int64_t now_ms) {
                  for (const std::string& name : names) set(changed, name, to, now_ms);
                }};
}

}  // namespace

std::vector<setting_word> setting_words(subject_is what) {
  std::vector<setting_word> words;
  for (const setting& s : settings_for(what)) words.push_back(s.word);
  return words;
}

std::vector<std::string> parts_like(const machine& m, std::string_view pattern) {
  std::vector<std::string> names;
  for (const part_state& p : m.parts()) {
    if (matches_pattern(pattern, p.name)) names.push_back(p.name);
  }
  return names;
}

std::vector<change> settings_of(const subject& who, map_reader& map, const machine& m) {
  std::vector<change> changes;
  for (const setting& s : settings_for(who.what)) {
    const node* value = map.optional_key(s.word.name);
    if (value == nullptr) continue;
    if (auto c = read_change(s, who, *value, m, map)) changes.push_back(std::move(*c));
  }
  map.finish();
  return changes;
}

std::vector<change> settings_of(const subject& who, const node& value, const machine& m,
                                std::vector<diagnostic>& faults) {
  map_reader map(value, describe_subject(who), faults);
  return settings_of(who, map, m);
}

std::vector<std::vector<change>> turns_of(const subject& who, const node& value, const machine& m,
                                          std::vector<diagnostic>& faults) {
  std::vector<std::vector<change>> all;
  map_reader map(value, describe_subject(who), faults);
  for (const setting& s : settings_for(who.what)) {
    const node* list = map.optional_key(s.word.name);
    if (list == nullptr) continue;
    if (list->kind != node_kind::list || list->items.size() < 2) {
      map.fault(list->where,
                "'" + std::string(s.word.name) + "' must be a list of values to take turns");
      continue;
    }
    std::vector<change> turns;
    for (const node& item : list->items) {
      if (auto c = read_change(s, who, item, m, map)) turns.push_back(std::move(*c));
    }
    all.push_back(std::move(turns));
  }
  map.finish();
  return all;
}

}  // namespace terrane::policies::scenario
