#include "policies/scenario/script.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "policies/planner/propose.hpp"
#include "policies/scenario/keys.hpp"
#include "policies/scenario/move_text.hpp"
#include "policies/scenario/settings.hpp"
#include "policies/scenario/sources.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/yaml/map_reader.hpp"

namespace terrane::policies::scenario {
namespace {

using yaml::map_reader;
using yaml::node;
using yaml::node_kind;

using faults_list = std::vector<diagnostic>;

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

// Reads one file. Holds references to what it reads and fills for its short life.
class script_reader {
 public:
  script_reader(script& into, faults_list& faults) : into_(into), faults_(faults) {
    if (into.policies == nullptr) return;
    for (const rule& r : into.policies->rules())
      if (r.for_each == scope::tenant) std::ranges::copy(r.only, std::back_inserter(known_.users));
  }

  void read_machine(const node& value);
  void read_trace(const node& value);

 private:
  void fault(const source_location& where, std::string message) {
    faults_.push_back({severity::error, where, std::move(message)});
  }
  // The items of a list; a single map or text stands for a list of one.
  std::vector<const node*> items_of(const node& value) const;
  std::vector<wanted_text> texts(map_reader& map, test_key which);
  std::vector<wanted_text> pairs(map_reader& map, test_key which);
  double bytes(map_reader& map, test_key which);

  void read_device(const node& value);
  void read_layers(const node& value);
  void read_part(const node& value);
  session_state* read_session(const node& value);
  void read_places(map_reader& map);
  bool check_device(const wanted_text& name);
  std::string device_at(map_reader& map, test_key which);

  void read_step(const node& value);
  void read_set(const node& value, step& into);
  void read_swing(const node& value, step& into);
  void read_sensors(map_reader& map, test_key which, bool works, step& into);
  void read_lost(map_reader& map, test_key which, bool lost, step& into);
  void read_comings(map_reader& map, step& into);
  wanted_moves read_moves(map_reader& map, test_key which);
  void read_request(map_reader& map, step& into);
  void check_names(const step& s);
  void check_memory(const std::string& device, const node& settings);

  std::optional<subject> find(const node& name);

  script& into_;
  faults_list& faults_;
  std::vector<std::string> sessions_;  // those of the trace that have not ended yet
  machine_names known_;
  struct memory {
    std::optional<double> total;
    double others = 0;
  };
  std::map<std::string, memory> memory_;  // of devices, as the trace has set it so far
};

std::vector<const node*> script_reader::items_of(const node& value) const {
  if (value.kind != node_kind::list) return {&value};
  std::vector<const node*> items;
  for (const node& item : value.items) items.push_back(&item);
  return items;
}

std::vector<wanted_text> script_reader::texts(map_reader& map, test_key which) {
  std::vector<wanted_text> all;
  const std::string key(row_of(which).name);
  const node* value = map.optional_key(which);
  if (value == nullptr) return all;
  for (const node* item : items_of(*value)) {
    if (item->kind == node_kind::scalar) {
      all.push_back({{}, item->text, item->where});
    } else {
      fault(item->where, "'" + std::string(key) + "' must be a text or a list of texts, not " +
                             std::string(describe(*item)));
    }
  }
  return all;
}

std::vector<wanted_text> script_reader::pairs(map_reader& map, test_key which) {
  std::vector<wanted_text> all;
  const std::string key(row_of(which).name);
  const node* value = map.optional_key(which);
  if (value == nullptr) return all;
  if (value->kind != node_kind::map) {
    fault(value->where, "'" + std::string(key) + "' must be a map of " +
                            std::string(row_of(which).says) + ", not " +
                            std::string(describe(*value)));
    return all;
  }
  for (const auto& [name, one] : value->entries) {
    for (const node* text : items_of(one)) {
      if (text->kind == node_kind::scalar) {
        all.push_back({name.text, text->text, text->where});
      } else {
        fault(text->where, "'" + name.text + "' needs a text, not " + std::string(describe(*text)));
      }
    }
  }
  return all;
}

double script_reader::bytes(map_reader& map, test_key which) {
  return map.quantity(which, unit::bytes).value_or(0);
}

bool script_reader::check_device(const wanted_text& name) {
  std::string why = why_no_device(name.text, known_);
  if (why.empty()) return true;
  fault(name.where, std::move(why));
  return false;
}

std::string script_reader::device_at(map_reader& map, test_key which) {
  const node* value = map.required_key(which);
  const std::string name = map.text(which).value_or("");
  if (!name.empty()) check_device({{}, name, value->where});
  return name;
}

// ---- The machine

void script_reader::read_machine(const node& value) {
  map_reader map(value, "the machine", faults_);
  if (const node* list = map.required_key(test_key::devices)) {
    for (const node* d : items_of(*list)) read_device(*d);
  }
  if (const node* list = map.optional_key(test_key::layers)) {
    for (const node* l : items_of(*list)) read_layers(*l);
  }
  if (const node* list = map.optional_key(test_key::parts)) {
    for (const node* p : items_of(*list)) read_part(*p);
  }
  if (const node* list = map.optional_key(test_key::sessions)) {
    for (const node* s : items_of(*list)) read_session(*s);
  }
  for (const part_state& p : into_.start.parts()) known_.parts.push_back(p.name);
  read_places(map);
  into_.start.context_tokens =
      static_cast<std::uint64_t>(map.quantity(test_key::context_tokens, unit::tokens).value_or(0));
  into_.start.move_ms = map.duration_ms(test_key::moves_take).value_or(into_.start.move_ms);
  if (const node* host = map.optional_key(test_key::host)) {
    for (const change& c : settings_of({subject_is::host, "host"}, *host, into_.start, faults_)) {
      c.apply(into_.start, 0);
    }
  }
  map.finish();
}

void script_reader::read_device(const node& value) {
  map_reader map(value, "a device", faults_);
  map.required_key(test_key::device_name);
  const std::string name = map.text(test_key::device_name).value_or("");
  map.required_key(test_key::device_total);
  if (why_no_device(name, known_).empty()) {
    map.fault(value.where, "there are two devices '" + name + "'");
  }
  known_.devices.push_back(name);
  into_.start.add_device(name, bytes(map, test_key::device_total));
  check_memory(name, value);
  for (const change& c : settings_of({subject_is::device, name}, map, into_.start)) {
    c.apply(into_.start, 0);
  }
}

void script_reader::read_layers(const node& value) {
  map_reader map(value, "layers", faults_);
  const int count = static_cast<int>(map.integer(test_key::layer_count).value_or(1));
  const double attn = bytes(map, test_key::layer_attn), ffn = bytes(map, test_key::layer_ffn),
               kv = bytes(map, test_key::layer_kv);
  into_.start.add_layers(count, attn, ffn, device_at(map, test_key::layer_on), kv);
  map.finish();
}

void script_reader::read_part(const node& value) {
  map_reader map(value, "a part", faults_);
  map.required_key(test_key::part_name);
  map.required_key(test_key::part_bytes);
  const std::string name = map.text(test_key::part_name).value_or("");
  const double size = bytes(map, test_key::part_bytes);
  into_.start.add_part(name, size, device_at(map, test_key::part_on));
  map.finish();
}

session_state* script_reader::read_session(const node& value) {
  map_reader map(value, "a session", faults_);
  map.required_key(test_key::session_id);
  const std::string id = map.text(test_key::session_id).value_or("");
  if (std::ranges::find(sessions_, id) != sessions_.end()) {
    map.fault(value.where, "there are two sessions '" + id + "'");
  }
  sessions_.push_back(id);
  known_.sessions.push_back(id);
  const double kv = bytes(map, test_key::session_kv);
  const std::string on = device_at(map, test_key::session_on);
  session_state& s = into_.start.add_session(id, 0, kv, on);
  for (const change& c : settings_of({subject_is::session, id}, map, into_.start)) {
    c.apply(into_.start, 0);
  }
  known_.users.push_back(s.tenant);
  return &s;
}

void script_reader::read_places(map_reader& map) {
  for (const wanted_text& name : texts(map, test_key::pinned)) {
    const std::vector<std::string> parts = parts_like(into_.start, name.text);
    if (parts.empty()) fault(name.where, why_no_part(name.text, known_));
    for (const std::string& p : parts) into_.start.part(p).pinned = true;
  }
  for (const wanted_text& name : texts(map, test_key::broken)) {
    if (check_device(name)) into_.start.broken_targets.insert(name.text);
  }
}

// ---- The trace

void script_reader::read_trace(const node& value) {
  if (value.kind != node_kind::list || value.items.empty()) {
    return fault(value.where, "'trace' must be a list of steps");
  }
  for (const node& s : value.items) read_step(s);
}

void script_reader::read_step(const node& value) {
  map_reader map(value, "a step", faults_);
  map.required_key(test_key::at);
  step s;
  s.where = value.where;
  const std::int64_t before_ms = into_.steps.empty() ? -1 : into_.steps.back().at_ms;
  const std::optional<std::int64_t> at_ms = map.duration_ms(test_key::at);
  if (at_ms && *at_ms > longest_trace_ms) {
    map.fault(value.where, "a trace lasts at most seven days");
  } else if (at_ms && *at_ms <= before_ms) {
    map.fault(value.where, "a step must be later than the one before it");
  }
  // Of a time that is wrong itself, what it is compared with says nothing.
  s.at_ms = at_ms && *at_ms <= longest_trace_ms ? *at_ms : before_ms;
  read_comings(map, s);
  if (const node* changes = map.optional_key(test_key::set)) read_set(*changes, s);
  if (const node* shaken = map.optional_key(test_key::swing)) read_swing(*shaken, s);
  read_sensors(map, test_key::stop, false, s);
  read_sensors(map, test_key::resume, true, s);
  read_lost(map, test_key::lose, true, s);
  read_lost(map, test_key::find, false, s);
  s.moves = read_moves(map, test_key::expect);
  s.shadow = read_moves(map, test_key::shadow);
  s.says = texts(map, test_key::says);
  s.why = pairs(map, test_key::why);
  s.refused = pairs(map, test_key::refused);
  s.admitted = texts(map, test_key::admitted);
  read_request(map, s);
  s.placed = pairs(map, test_key::placed);
  check_names(s);
  map.finish();
  into_.steps.push_back(std::move(s));
}

std::optional<subject> script_reader::find(const node& name) {
  if (name.text == "host") return subject{subject_is::host, name.text};
  std::vector<std::string_view> known = {"host"};
  known.insert(known.end(), known_.devices.begin(), known_.devices.end());
  if (why_no_device(name.text, known_).empty()) {
    return subject{subject_is::device, name.text};
  }
  if (std::ranges::find(sessions_, name.text) != sessions_.end()) {
    return subject{subject_is::session, name.text};
  }
  if (!parts_like(into_.start, name.text).empty()) return subject{subject_is::parts, name.text};
  known.insert(known.end(), sessions_.begin(), sessions_.end());
  fault(name.where, "the machine has no device, session or part '" + name.text + "'" +
                        name_hint(name.text, known));
  return std::nullopt;
}

void script_reader::read_set(const node& value, step& into) {
  if (value.kind != node_kind::map) {
    return fault(value.where, "'set' must be a map, such as {gpu: {others: 2GiB}}");
  }
  for (const auto& [name, changes] : value.entries) {
    const std::optional<subject> who = find(name);
    if (!who) continue;
    if (who->what == subject_is::device) check_memory(name.text, changes);
    if (const node* tenant = changes.find(setting_tenant)) known_.users.push_back(tenant->text);
    std::vector<change> all = settings_of(*who, changes, into_.start, faults_);
    std::ranges::move(all, std::back_inserter(into.changes));
  }
}

// {every: 2s, gpu: {others: [0GiB, 2GiB]}}
void script_reader::read_swing(const node& value, step& into) {
  map_reader map(value, "'swing'", faults_);
  map.required_key(test_key::swing_every);
  const std::int64_t every_ms = map.duration_ms(test_key::swing_every).value_or(0);
  if (map.usable() && value.find(row_of(test_key::swing_every).name) != nullptr && every_ms <= 0) {
    map.fault(value.where, "'every' must be above zero");
  }
  for (const auto& [name, changes] : value.entries) {
    if (name.text == row_of(test_key::swing_every).name) continue;
    const std::optional<subject> who = find(name);
    if (!who) continue;
    if (who->what == subject_is::device) check_memory(name.text, changes);
    for (std::vector<change>& turns : turns_of(*who, changes, into_.start, faults_)) {
      into.swings.push_back({std::move(turns), std::max<std::int64_t>(every_ms, 1)});
    }
  }
}

void script_reader::read_sensors(map_reader& map, test_key which, bool works, step& into) {
  constexpr std::array<std::string_view, 6> known = {"vram",        "temp",     "power",
                                                     "utilisation", "throttle", "fan"};
  for (const wanted_text& named : texts(map, which)) {
    const std::size_t dot = named.text.rfind('.');
    const std::string device = named.text.substr(0, dot);
    const std::string sensor = dot == std::string::npos ? "" : named.text.substr(dot + 1);
    if (std::ranges::find(known, sensor) == known.end()) {
      fault(named.where,
            "'" + named.text +
                "' is no sensor; write DEVICE.vram, DEVICE.temp, DEVICE.power or the like");
    } else if (check_device({{}, device, named.where})) {
      into.changes.push_back({named.text + " sensor", [=](machine& m, std::int64_t) {
                                works ? m.resume_sensor(device, sensor)
                                      : m.stop_sensor(device, sensor);
                              }});
    }
  }
}

void script_reader::read_lost(map_reader& map, test_key which, bool lost, step& into) {
  for (const wanted_text& name : texts(map, which)) {
    if (!check_device(name)) continue;
    into.changes.push_back(
        {name.text + " lost",
         [device = name.text, lost](machine& m, std::int64_t) { m.device(device).lost = lost; }});
  }
}

// What is wrong with the names of a step.
void script_reader::check_names(const step& s) {
  const auto check = [&](const wanted_text& one, std::string why) {
    if (!why.empty()) fault(one.where, std::move(why));
  };
  for (const wanted_text& one : s.why) check(one, why_no_part_or_session(one.about, known_));
  for (const wanted_text& one : s.refused)
    check(one, why_no_user(one.about, known_, !s.request.empty()));
  for (const wanted_text& one : s.admitted)
    check(one, why_no_user(one.text, known_, !s.request.empty()));
  for (const wanted_text& one : s.placed) {
    if (parts_like(into_.start, one.about).empty()) check(one, why_no_part(one.about, known_));
    check_device(one);
  }
}

// Nobody uses more of a device than there is.
void script_reader::check_memory(const std::string& device, const node& settings) {
  // In bytes, those of a list that takes turns too; what is no number is told where it is read.
  const auto amounts = [&](std::string_view name) {
    std::vector<std::pair<double, const node*>> all;
    const node* value = settings.find(name);
    if (value == nullptr) return all;
    for (const node* item : items_of(*value)) {
      const parsed<double> bytes = parse_quantity(item->text, unit::bytes);
      if (item->kind == node_kind::scalar && bytes) all.emplace_back(*bytes, item);
    }
    return all;
  };
  memory& now = memory_[device];
  const auto totals = amounts(setting_total), others = amounts(setting_others);
  if (!totals.empty()) now.total = std::ranges::min(totals).first;
  if (!now.total) return;
  for (const auto& [used, at] : others) {
    if (used <= *now.total) continue;
    fault(at->where, in_quotes(setting_others) + " is " + format_bytes(used) + ", and '" + device +
                         "' has only " + format_bytes(*now.total));
  }
  if (!others.empty()) now.others = std::min(std::ranges::max(others).first, *now.total);
  for (const auto& [total, at] : totals) {
    if (total >= now.others) continue;
    fault(at->where, in_quotes(setting_total) + " is " + format_bytes(total) +
                         ", and other programs use " + format_bytes(now.others) + " of '" + device +
                         "' by then; set " + in_quotes(setting_others) + " as well");
  }
}

// Sessions that begin or end.
void script_reader::read_comings(map_reader& map, step& into) {
  if (const node* list = map.optional_key(test_key::open)) {
    for (const node* item : items_of(*list)) {
      const session_state opened = *read_session(*item);
      into_.start.end_session(opened.id);
      into.changes.push_back(
          {opened.id + " opens", [opened](machine& m, std::int64_t) { m.begin_session(opened); }});
    }
  }
  for (const wanted_text& name : texts(map, test_key::close)) {
    if (std::erase(sessions_, name.text) == 0) {
      fault(name.where, "there is no session '" + name.text + "'");
    }
    into.changes.push_back(
        {name.text + " closes", [id = name.text](machine& m, std::int64_t) { m.end_session(id); }});
  }
}

void script_reader::read_request(map_reader& map, step& into) {
  const node* value = map.optional_key(test_key::request);
  if (value == nullptr) return;
  if (into.refused.empty() && into.admitted.empty()) {
    fault(value->where, "'request' is about those of 'refused' and 'admitted'; write one of them");
  }
  map_reader request(*value, "'request'", faults_);
  request.required_key(test_key::request_kv);
  const auto kv = static_cast<std::uint64_t>(bytes(request, test_key::request_kv));
  into.request.push_back({device_at(request, test_key::request_on), kv});
  request.finish();
}

wanted_moves script_reader::read_moves(map_reader& map, test_key which) {
  wanted_moves wanted;
  wanted.where = map.where();
  const node* value = map.optional_key(which);
  if (value == nullptr) return wanted;
  wanted.where = value->where;
  if (value->kind != node_kind::map) {
    for (wanted_text& t : texts(map, which)) {
      if (std::string why = why_no_move(t.text, known_); !why.empty()) fault(t.where, why);
      wanted.exactly.push_back(std::move(t.text));
    }
    return wanted;
  }
  map_reader counts(*value, "'" + std::string(row_of(which).name) + "'", faults_);
  const auto count = [&](test_key limit) -> std::optional<std::size_t> {
    const auto n = counts.integer(limit);
    return n ? std::optional(static_cast<std::size_t>(*n)) : std::nullopt;
  };
  wanted.at_least = count(test_key::at_least);
  wanted.at_most = count(test_key::at_most);
  counts.finish();
  if (!wanted.counted()) counts.fault(value->where, "write 'at_least', 'at_most' or both");
  return wanted;
}

// A file of policies where one of tests was meant.
bool is_policy_file(const node& top) {
  return top.kind == node_kind::map && top.find(row_of(test_key::scenario).name) == nullptr &&
         top.find(policies::row_of(policy_key::api_version).name) != nullptr;
}

}  // namespace

diagnostic no_test(const std::filesystem::path& policy, const std::filesystem::path& folder) {
  const std::string test = policy.stem().string() + std::string(test_ending);
  std::error_code ignored;
  const bool beside = std::filesystem::exists(folder / test, ignored);
  return {severity::error,
          {policy.string()},
          "is a policy file, and no test of one; " +
              (beside ? "its test is " + (folder / test).string()
                      : "a test of it would be " + test + " beside it; 'terranectl policy new' " +
                            "writes one to start from")};
}

policy_set::load_result<script> read_script(const std::string& name, std::string_view text,
                                            const std::filesystem::path& folder) {
  const result<node> document = yaml::parse_document(name, text);
  if (!document) return tl::unexpected(faults_list{document.error()});
  if (is_policy_file(*document))
    return tl::unexpected(faults_list{no_test(std::filesystem::path(name), folder)});
  faults_list faults;
  script read;
  map_reader top(*document, "a scenario", faults);
  top.required_key(test_key::scenario);
  read.title = top.text(test_key::scenario).value_or("");
  read.policies = load_policies({name, text, folder}, top, faults);
  script_reader reader(read, faults);
  if (const node* m = top.required_key(test_key::machine)) {
    reader.read_machine(*m);
  }
  if (const node* t = top.required_key(test_key::trace)) reader.read_trace(*t);
  top.finish();
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return read;
}

}  // namespace terrane::policies::scenario
