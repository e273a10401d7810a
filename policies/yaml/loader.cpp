#include "policies/yaml/loader.hpp"

#include <algorithm>
#include <optional>

#include "policies/rule/lint.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/yaml/map_reader.hpp"

namespace terrane::policies::yaml {
namespace {

using faults_list = std::vector<diagnostic>;

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

// What was read of a condition, and whether it says how long it must hold.
struct read_condition {
  condition value;
  bool held_given = false;
};

std::optional<metric_id> read_metric(map_reader& map) {
  map.required_key(policy_key::metric);
  const std::optional<std::string> name = map.text(policy_key::metric);
  if (!name) return std::nullopt;
  if (const metric_entry* m = find_metric(*name)) return m->id;
  map.fault(map.optional_key(policy_key::metric)->where,
            "there is no metric '" + *name + "'" + name_hint(*name, metric_names()));
  return std::nullopt;
}

// The comparison that the map holds; a fault when there is none or more than one.
std::optional<comparison> read_comparison(map_reader& map) {
  std::optional<comparison> found;
  int count = 0;
  for (const word<comparison>& w : comparisons()) {
    if (map.optional_key(w.name) == nullptr) continue;
    found = w.value;
    ++count;
  }
  if (count == 1) return found;
  if (map.usable()) {
    std::string message = "a condition needs either 'above' or 'below', and not both";
    message += "; a truth needs 'is', a time of day or a day 'within' or 'outside'";
    map.fault(map.where(), std::move(message));
  }
  return std::nullopt;
}

// The limit in the unit of the metric; false after a fault.
bool read_limit_of(map_reader& map, comparison how, const metric_entry& m, term& into) {
  const std::string_view key = name_of(how);
  const unit u = m.measured_in;
  if (!suits(how, u)) {
    map.fault(map.optional_key(key)->where, unsuited_text(into.metric, how));
    return false;
  }
  if (how != comparison::within && how != comparison::outside) {
    const auto limit = map.value_of(key, m);
    into.limit = limit.value_or(0);
    return limit.has_value();
  }
  const std::optional<std::string> written = map.text(key);
  if (!written) return false;
  const parsed<quantity_range> range = parse_range(*written, u);
  if (!range) {
    map.fault(map.optional_key(key)->where, "'" + std::string(key) + "': " + range.error());
    return false;
  }
  into.limit = range->from;
  into.upper = range->to;
  return true;
}

void read_term(map_reader& map, read_condition& into) {
  term t;
  t.where = map.where();
  const std::optional<metric_id> id = read_metric(map);
  const std::optional<comparison> how = read_comparison(map);
  if (const std::optional<std::int64_t> held = map.duration_ms(policy_key::held)) {
    t.held_ms = *held;
    into.held_given = true;
  }
  map.finish();
  if (!id || !how) return;
  t.metric = *id;
  t.compare = *how;
  if (read_limit_of(map, *how, metric(*id), t)) into.value.terms.push_back(t);
}

void read_group(map_reader& map, policy_key which, read_condition& into, faults_list& faults) {
  const node& list = *map.optional_key(which);
  const std::string key(row_of(which).name);
  into.value.how = which == policy_key::all_of ? combination::all_of : combination::any_of;
  if (const std::optional<std::int64_t> held = map.duration_ms(policy_key::group_held)) {
    into.value.held_ms = *held;
    into.held_given = true;
  }
  map.finish();
  if (list.kind != node_kind::list || list.items.empty()) {
    map.fault(list.where, "'" + key + "' must be a list of conditions");
    return;
  }
  if (list.items.size() > max_terms) {
    map.fault(list.where, "'" + key + "' has " + std::to_string(list.items.size()) +
                              " conditions; at most " + std::to_string(max_terms));
    return;
  }
  for (const node& item : list.items) {
    map_reader term_map(item, "a condition", faults);
    read_term(term_map, into);
  }
}

std::optional<read_condition> read_condition_of(const node* value, policy_key which,
                                                faults_list& faults) {
  if (value == nullptr) return std::nullopt;
  read_condition read;
  read.value.where = value->where;
  map_reader map(*value, in_quotes(row_of(which).name), faults);
  const auto has = [&](policy_key group) { return value->find(row_of(group).name) != nullptr; };
  if (has(policy_key::all_of)) {
    read_group(map, policy_key::all_of, read, faults);
  } else if (has(policy_key::any_of)) {
    read_group(map, policy_key::any_of, read, faults);
  } else {
    read_term(map, read);
  }
  return read;
}

target_choice read_target(const node& choice) {
  const std::optional<target_kind> kind = find_word(targets(), choice.text);
  if (kind) return {*kind, {}, choice.where};
  return {target_kind::device, choice.text, choice.where};
}

// The places that a key names, one or a list.
std::vector<target_choice> read_places(map_reader& map, const node& value, policy_key which) {
  const std::string key = in_quotes(row_of(which).name);
  std::vector<target_choice> places;
  const std::vector<node> single = {value};
  const std::vector<node>& choices = value.kind == node_kind::list ? value.items : single;
  for (const node& choice : choices) {
    if (choice.kind == node_kind::scalar) {
      places.push_back(read_target(choice));
    } else {
      map.fault(choice.where, key + " must be a target or a list of targets");
    }
  }
  if (choices.empty()) map.fault(value.where, key + " lists no target");
  return places;
}

void read_targets(map_reader& map, declarative_action& action) {
  if (const node* from = map.optional_key(policy_key::from)) {
    action.from = read_places(map, *from, policy_key::from);
  }
  const bool needed = action.action == verb::move || action.action == verb::spill;
  const node* to = needed ? map.required_key(policy_key::to) : map.optional_key(policy_key::to);
  if (to == nullptr) return;
  action.to = read_places(map, *to, policy_key::to);
}

// `only`: names or patterns of the objects that a policy is about.
void read_only(map_reader& policy, rule& r) {
  const node* value = policy.optional_key(policy_key::only);
  if (value == nullptr) return;
  const std::vector<node> single = {*value};
  for (const node& name : value->kind == node_kind::list ? value->items : single) {
    if (name.kind == node_kind::scalar) {
      r.only.push_back(name.text);
    } else {
      policy.fault(name.where, "'only' must be a name or a list of names, such as \"cuda:*\"");
    }
  }
}

void read_selection(map_reader& map, declarative_action& action) {
  const std::optional<std::string> name = map.text(name_of(action.action));
  if (!name) return;
  const source_location where = map.optional_key(name_of(action.action))->where;
  if (action.action == verb::spill) {
    action.spills = map.one_of(policy_key::spill, spillings()).value_or(spilling::kv);
    return;
  }
  if (action.action != verb::move) {
    const std::string takes = action.action == verb::yield ? "device" : "kv";
    if (*name != takes) {
      map.fault(where, "'" + std::string(name_of(action.action)) + "' takes '" + takes +
                           "', not '" + *name + "'");
    }
    return;
  }
  if (const std::optional<selection> what = find_word(selections(), *name)) {
    action.what = *what;
  } else if (name->find_first_of("*?.") != std::string::npos && is_plain_name(*name, "*?._-")) {
    action.what = selection::pattern;
    action.pattern = *name;
  } else {
    map.fault(where, "'move' cannot be '" + *name + "'; nor is it a pattern such as layer.*.ffn" +
                         name_hint(*name, names_of(selections())));
  }
}

void read_extent(map_reader& map, const rule& r, declarative_action& action) {
  const bool counts = std::ranges::any_of(
      r.leave.terms, [&](const term& t) { return counts_bytes(r.for_each, metric(t.metric)); });
  const bool to_leave = action.action == verb::move || action.action == verb::spill;
  action.until = counts && to_leave ? extent::leave : extent::all;
  const std::optional<std::string> written = map.text(policy_key::until);
  if (!written) return;
  if (const std::optional<extent> known = find_word(extents(), *written)) {
    action.until = *known;
  } else if (const parsed<double> bytes = parse_quantity(*written, unit::bytes)) {
    action.until = extent::bytes;
    action.until_bytes = static_cast<std::uint64_t>(*bytes);
  } else {
    map.fault(
        map.optional_key(policy_key::until)->where,
        "'until' must be leave, all or a number of bytes such as 2GiB, not '" + *written + "'");
  }
}

std::optional<verb> read_verb(const node& value, map_reader& map) {
  std::optional<verb> found;
  for (const word<verb>& w : verbs()) {
    if (find_yaml_key(place::action, w.name) == nullptr || value.find(w.name) == nullptr) continue;
    if (found) {
      map.fault(value.where, "'do' holds one verb; write a policy for each");
      return std::nullopt;
    }
    found = w.value;
  }
  if (!found) {
    map.fault(value.where,
              "'do' needs a verb: move: layers, spill: kv, fetch: kv or yield: device");
  }
  return found;
}

void read_action(map_reader& policy, rule& r, faults_list& faults) {
  const node* value = policy.required_key(policy_key::action);
  if (value == nullptr) return;
  map_reader map(*value, "'do'", faults);
  if (!map.usable()) return;
  const std::optional<verb> action_verb = read_verb(*value, map);
  if (!action_verb) return;
  declarative_action action;
  action.action = *action_verb;
  read_selection(map, action);
  const bool kv = *action_verb == verb::spill || *action_verb == verb::fetch;
  action.order = map.one_of(policy_key::order, orderings())
                     .value_or(kv ? ordering::longest_idle : ordering::top_down);
  read_extent(map, r, action);
  read_targets(map, action);
  if (*action_verb == verb::spill) {
    action.keep_tokens =
        static_cast<std::uint64_t>(map.integer(policy_key::keep_tokens).value_or(0));
  }
  map.finish();
  r.action = std::move(action);
}

void read_limit(map_reader& policy, rule& r, faults_list& faults) {
  const node* value = policy.optional_key(policy_key::limit);
  if (value == nullptr) return;
  const std::size_t before = faults.size();
  map_reader map(*value, "'limit'", faults);
  map.required_key(policy_key::limit_bytes);
  map.required_key(policy_key::limit_per);
  r.limit.bytes =
      static_cast<std::uint64_t>(map.quantity(policy_key::limit_bytes, unit::bytes).value_or(0));
  r.limit.per_ms = map.duration_ms(policy_key::limit_per).value_or(0);
  map.finish();
  const bool empty = r.limit.bytes == 0 || r.limit.per_ms == 0;
  if (empty && faults.size() == before) {
    map.fault(value->where, "'limit' needs bytes and a time above zero");
  }
}

void read_flapping(map_reader& policy, rule& r, faults_list& faults) {
  const node* value = policy.optional_key(policy_key::flapping);
  if (value == nullptr) return;
  map_reader map(*value, "'flapping'", faults);
  map.required_key(policy_key::flapping_times);
  map.required_key(policy_key::flapping_per);
  r.flapping.times =
      static_cast<std::int32_t>(map.integer(policy_key::flapping_times).value_or(r.flapping.times));
  r.flapping.per_ms = map.duration_ms(policy_key::flapping_per).value_or(r.flapping.per_ms);
  map.finish();
}

void read_quota(map_reader& policy, rule& r, faults_list& faults) {
  const node* value = policy.optional_key(policy_key::quota);
  if (value == nullptr) return;
  const std::size_t before = faults.size();
  map_reader map(*value, "'quota'", faults);
  map.required_key(policy_key::quota_bytes);
  r.quota.bytes =
      static_cast<std::uint64_t>(map.quantity(policy_key::quota_bytes, unit::bytes).value_or(0));
  r.quota.on = map.text(policy_key::quota_on).value_or(r.quota.on);
  map.finish();
  // What is told already has no second fault.
  if (r.quota.bytes == 0 && faults.size() == before) {
    map.fault(place_of(r, policy_key::quota_bytes), "'quota' needs bytes above zero");
  }
}

void read_conditions(map_reader& policy, rule& r, faults_list& faults) {
  const auto needed = [&](policy_key k) {
    return read_condition_of(policy.required_key(k), k, faults);
  };
  const auto enter = needed(policy_key::enter);
  const auto leave = needed(policy_key::leave);
  const auto emergency =
      read_condition_of(policy.optional_key(policy_key::emergency), policy_key::emergency, faults);
  if (emergency) r.emergency = emergency->value;
  if (enter) r.enter = enter->value;
  if (leave) r.leave = leave->value;
  if (leave && !leave->held_given) r.leave.held_ms = leave_held_factor * longest_held_ms(r.enter);
}

// Where its keys are, those of maps in it included.
void note_places(const node& map, place in, rule& r) {
  for (const auto& [key, value] : map.entries) {
    const key_entry* known = find_yaml_key(in, key.text);
    if (known == nullptr) continue;
    r.places.emplace_back(known->id, value.where);
    if (known->id == policy_key::action) note_places(value, place::action, r);
    if (known->id == policy_key::quota) note_places(value, place::quota, r);
  }
}

rule read_policy(const node& value, faults_list& faults) {
  map_reader policy(value, "a policy", faults);
  rule r;
  r.where = value.where;
  note_places(value, place::policy, r);
  const node* name = policy.required_key(policy_key::name);
  r.name = policy.text(policy_key::name).value_or("");
  if (name != nullptr && is_boolean_word(*name)) {
    policy.fault(name->where, "a bare '" + name->text + "' is a boolean in YAML; quote the name");
  }
  r.mode = policy.one_of(policy_key::mode, modes()).value_or(rule_mode::enforce);
  policy.required_key(policy_key::for_each);
  r.for_each = policy.one_of(policy_key::for_each, scopes()).value_or(scope::gpu);
  read_only(policy, r);
  r.priority = static_cast<int>(policy.integer(policy_key::priority).value_or(r.priority));
  read_conditions(policy, r, faults);
  r.cooldown_ms = policy.duration_ms(policy_key::cooldown).value_or(0);
  const std::optional<std::int64_t> min_stay = policy.duration_ms(policy_key::min_stay);
  read_limit(policy, r, faults);
  read_quota(policy, r, faults);
  read_flapping(policy, r, faults);
  read_action(policy, r, faults);
  const auto* action = std::get_if<declarative_action>(&r.action);
  const bool yields = action != nullptr && action->action == verb::yield;
  r.min_stay_ms = min_stay.value_or(yields ? 0 : r.min_stay_ms);
  r.undo = policy.one_of(policy_key::undo, undos()).value_or(undo_kind::none);
  policy.finish();
  name_devices(r);
  return r;
}

bool has_errors(const faults_list& faults, std::size_t since) {
  return std::any_of(faults.begin() + static_cast<std::ptrdiff_t>(since), faults.end(),
                     [](const diagnostic& d) { return d.level == severity::error; });
}

}  // namespace

void load_rules(const std::string& name, std::string_view text, std::vector<rule>& rules,
                std::vector<diagnostic>& faults) {
  const result<node> root = parse_document(name, text);
  if (!root) {
    faults.push_back(root.error());
    return;
  }
  map_reader file(*root, "a policy file", faults);
  const node* version = file.required_key(policy_key::api_version);
  if (version != nullptr && version->text != policy_version) {
    file.fault(version->where, "'apiVersion' must be " + std::string(policy_version) + ", not '" +
                                   version->text + "'");
  }
  const node* list = file.required_key(policy_key::policies);
  file.finish();
  if (list == nullptr) return;
  if (list->kind != node_kind::list) {
    file.fault(list->where, "'policies' must be a list, not " + std::string(describe(*list)));
    return;
  }
  for (const node& item : list->items) {
    const std::size_t before = faults.size();
    rule r = read_policy(item, faults);
    // Lint on half a rule would report the consequences of faults that are reported already.
    if (!has_errors(faults, before)) lint_rule(r, faults);
    if (!has_errors(faults, before)) rules.push_back(std::move(r));
  }
}

}  // namespace terrane::policies::yaml
