#include "policies/rule/lint.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "policies/planner/objects.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

void error_at(const source_location& where, std::string message, std::vector<diagnostic>& faults) {
  faults.push_back({severity::error, where, std::move(message)});
}

void warning_at(const source_location& where, std::string message,
                std::vector<diagnostic>& faults) {
  faults.push_back({severity::warning, where, std::move(message)});
}

bool is_error(const diagnostic& d) { return d.level == severity::error; }

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

void lint_metrics(const rule& r, const condition& c, std::vector<diagnostic>& faults) {
  for (const term& t : c.terms) {
    const metric_entry& m = metric(t.metric);
    if (offers(r.for_each, m)) continue;
    std::string list;
    for (const metric_entry& known : metrics()) {
      if (offers(r.for_each, known)) list += (list.empty() ? "" : ", ") + std::string(known.name);
    }
    error_at(t.where,
             in_quotes(m.name) + " is a metric of a " + std::string(name_of(m.belongs_to)) +
                 ", and this policy is for each " + std::string(name_of(r.for_each)) +
                 "; it can use: " + list,
             faults);
  }
}

void lint_band(const rule& r, const term& enter, const term& leave,
               std::vector<diagnostic>& faults) {
  const std::string name = in_quotes(metric(enter.metric).name);
  if (enter.compare != comparison::above && enter.compare != comparison::below) {
    // No band can be between these; what holds long enough does not flap.
    if (enter.compare != leave.compare || enter.limit != leave.limit || enter.upper != leave.upper)
      return;
    error_at(leave.where, "'leave' and 'enter' ask the same of " + name + ": " + limit_text(leave),
             faults);
    return;
  }
  if (enter.compare == leave.compare) {
    error_at(leave.where,
             "'leave' asks " + name + " " + limit_text(leave) + " and 'enter' " +
                 limit_text(enter) + "; they must look in opposite directions",
             faults);
    return;
  }
  const bool crossed =
      enter.compare == comparison::above ? leave.limit > enter.limit : leave.limit < enter.limit;
  if (crossed || leave.limit == enter.limit) {
    error_at(leave.where,
             "there is no band between 'enter' (" + name + " " + limit_text(enter) +
                 ") and 'leave' (" + limit_text(leave) + "), so policy " + in_quotes(r.name) +
                 " would flap; move one of them",
             faults);
  }
}

void lint_bands(const rule& r, std::vector<diagnostic>& faults) {
  bool shared = false;
  for (const term& e : r.enter.terms) {
    for (const term& l : r.leave.terms) {
      if (e.metric != l.metric) continue;
      shared = true;
      lint_band(r, e, l, faults);
    }
  }
  if (!shared && !r.enter.terms.empty() && !r.leave.terms.empty()) {
    faults.push_back(
        {severity::warning, r.leave.where,
         "'enter' and 'leave' have no metric in common, so nothing here keeps policy " +
             in_quotes(r.name) + " from flapping"});
  }
}

// The emergency level lies past the enter level, seen from the leave level.
void lint_emergency(const rule& r, std::vector<diagnostic>& faults) {
  for (const term& e : r.emergency.terms) {
    for (const term& n : r.enter.terms) {
      const bool has_sides = e.compare == comparison::above || e.compare == comparison::below;
      if (e.metric != n.metric || !has_sides) continue;
      const bool past = e.compare == n.compare &&
                        (e.compare == comparison::above ? e.limit > n.limit : e.limit < n.limit);
      if (past) continue;
      error_at(e.where,
               "'emergency' (" + in_quotes(metric(e.metric).name) + " " + limit_text(e) +
                   ") must lie past 'enter' (" + limit_text(n) + "), on the same side",
               faults);
    }
    for (const term& l : r.leave.terms) {
      if (e.metric == l.metric) lint_band(r, e, l, faults);
    }
  }
}

void lint_flapping(const rule& r, std::vector<diagnostic>& faults) {
  if (r.flapping.times >= 1 && r.flapping.times <= most_flaps && r.flapping.per_ms >= 1000 &&
      r.flapping.per_ms <= longest_flap_ms) {
    return;
  }
  error_at(place_of(r, policy_key::flapping),
           "'flapping' takes 1 to " + std::to_string(most_flaps) + " times, in 1s to " +
               format_duration(longest_flap_ms),
           faults);
}

// "cuda, vulkan".
std::string driver_text() {
  std::string text;
  for (const std::string_view name : drivers())
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// A driver and an identity, or a pattern.
bool is_device_name(const std::string& name) {
  return name.find_first_of(":*?") != std::string::npos;
}

void lint_quota(const rule& r, std::vector<diagnostic>& faults) {
  if (r.quota.bytes == 0) return;
  if (r.for_each != scope::tenant) {
    error_at(place_of(r, policy_key::quota),
             "'quota' is what a user may hold; use for_each: tenant", faults);
  }
  const bool of_all = r.quota.on == quota_in_all || r.quota.on == quota_on_gpus;
  if (!of_all && r.quota.on != "cpu" && !is_device_name(r.quota.on)) {
    std::vector<std::string_view> names(drivers().begin(), drivers().end());
    names.insert(names.end(), {quota_in_all, quota_on_gpus, "cpu"});
    std::string message = "'quota' cannot be on " + in_quotes(r.quota.on) +
                          "; it takes all, gpu, cpu, " + driver_text() +
                          ", a device's name such as vulkan:<uuid>, or a pattern";
    const std::string_view meant = nearest_name(r.quota.on, names);
    if (!meant.empty()) message += "; did you mean " + in_quotes(meant) + "?";
    error_at(place_of(r, policy_key::quota_on), std::move(message), faults);
  }
  for (const term& t : r.enter.terms) {
    const bool counts =
        t.metric == metric_id::tenant_kv_bytes || t.metric == metric_id::tenant_gpu_kv_bytes;
    if (!counts || t.compare != comparison::above) continue;
    if (t.limit <= static_cast<double>(r.quota.bytes)) continue;
    faults.push_back({severity::warning, t.where,
                      "'enter' lies above the quota, so requests are refused before the policy "
                      "does anything"});
  }
}

bool is_kv_verb(verb v) { return v == verb::spill || v == verb::fetch; }

void lint_scope(const rule& r, const declarative_action& a, std::vector<diagnostic>& faults) {
  const source_location& at = place_of(r, policy_key::action);
  if (a.action == verb::move && (r.for_each == scope::session || r.for_each == scope::tenant)) {
    error_at(at,
             "a policy for each " + std::string(name_of(r.for_each)) +
                 " cannot move parts; 'spill: kv' moves its KV cache",
             faults);
  }
  if (a.action == verb::yield && !is_device_scope(r.for_each)) {
    error_at(at, "'yield' gives a device's memory back; use for_each: gpu, cpu or device", faults);
  }
  if (a.action == verb::yield && a.until != extent::all) {
    error_at(place_of(r, policy_key::until), "'yield' gives all memory back; leave 'until' out",
             faults);
  }
  if (a.action == verb::fetch && r.for_each != scope::session) {
    error_at(at, "'fetch' brings one session's KV home; use for_each: session", faults);
  }
  if (a.action == verb::spill && r.for_each == scope::part) {
    error_at(at, "a policy for each part cannot spill KV; moving the part takes its KV along",
             faults);
  }
  const bool cheaper = a.action == verb::spill && a.spills == spilling::cheaper;
  if (cheaper && !is_device_scope(r.for_each)) {
    error_at(at, "'spill: cheaper' relieves a device; use for_each: gpu, cpu or device", faults);
  }
  if (cheaper && a.until == extent::all) {
    error_at(at,
             "'spill: cheaper' must know how much is to leave: 'until: leave' with a 'leave' whose "
             "metric counts bytes, or a number of bytes",
             faults);
  }
  const bool idle = a.order == ordering::longest_idle;
  const bool stacked = a.order == ordering::top_down || a.order == ordering::bottom_up;
  const bool one_session = r.for_each == scope::session;
  if ((a.action == verb::move && idle) || (is_kv_verb(a.action) && stacked && !one_session)) {
    error_at(place_of(r, policy_key::order),
             "'order: " + std::string(name_of(a.order)) + "' does not order what '" +
                 std::string(name_of(a.action)) + "' takes",
             faults);
  }
}

void lint_extent(const rule& r, const declarative_action& a, std::vector<diagnostic>& faults) {
  if (a.until == extent::bytes && a.until_bytes == 0) {
    warning_at(
        place_of(r, policy_key::until),
        "'until' of no bytes is reached before anything has moved; write how many are to go, "
        "such as 2GiB, or 'all'",
        faults);
  }
  if (a.until != extent::leave) return;
  const bool reachable = std::ranges::any_of(
      r.leave.terms, [&](const term& t) { return counts_bytes(r.for_each, metric(t.metric)); });
  if (reachable) return;
  error_at(place_of(r, policy_key::until),
           "'until: leave' needs a 'leave' whose metric counts bytes, such as vram.used_ratio; "
           "write 'until: all' or a number of bytes",
           faults);
}

bool is_kv_metric(metric_id m) {
  return m == metric_id::kv_bytes || m == metric_id::kv_gpu_bytes ||
         m == metric_id::tenant_kv_bytes || m == metric_id::tenant_gpu_kv_bytes;
}

bool is_host_memory(const rule& r, metric_id m) {
  return r.for_each == scope::cpu ||
         (r.for_each == scope::host &&
          (m == metric_id::host_memory_used_ratio || m == metric_id::host_memory_available));
}

// Whether a target is a GPU whatever the machine is.
bool is_gpu_target(const target_choice& t) {
  const auto of_driver = [&](std::string_view d) { return t.device.starts_with(d); };
  return t.kind == target_kind::most_free_gpu ||
         (t.kind == target_kind::device && std::ranges::any_of(drivers(), of_driver));
}

// Why what the action moves can never bring the term about; empty: it can, or that depends.
std::string why_not_reached(const rule& r, const declarative_action& a, const term& t) {
  const std::string name = in_quotes(metric(t.metric).name);
  const bool fills = !a.from.empty();
  const bool down = t.compare == comparison::below;
  const bool of_room =
      t.metric == metric_id::vram_free || t.metric == metric_id::host_memory_available;
  if (down == (of_room != fills)) {
    return name + " " + limit_text(t) + ", and what is " +
           (fills ? "brought there makes it " : "taken away makes it ") +
           (of_room == fills ? "smaller" : "larger");
  }
  if (t.metric == metric_id::kv_bytes || t.metric == metric_id::tenant_kv_bytes) {
    return name + " counts KV wherever it is, and a spill only puts it elsewhere; compare " +
           (t.metric == metric_id::kv_bytes ? "'kv.gpu_bytes'" : "'tenant.gpu_kv_bytes'");
  }
  if (a.to.empty() || fills) return {};
  if (is_kv_metric(t.metric) && std::ranges::all_of(a.to, is_gpu_target)) {
    return name + " counts KV on all GPUs, and 'to' only puts it on another one";
  }
  const auto stays = [&](const target_choice& to) {
    return to.kind == target_kind::itself ||
           (is_host_memory(r, t.metric) && to.kind == target_kind::cpu);
  };
  if (std::ranges::all_of(a.to, stays)) {
    return "'to' leaves it where it is, and " + name + " as it is";
  }
  return {};
}

// 'until: leave' with a level that the action cannot bring about plans again and again for nothing.
void lint_reach(const rule& r, const declarative_action& a, std::vector<diagnostic>& faults) {
  if (a.until != extent::leave) return;
  std::size_t hopeless = 0, counted = 0;
  std::vector<diagnostic> found;
  for (const term& t : r.leave.terms) {
    if (!counts_bytes(r.for_each, metric(t.metric))) continue;
    ++counted;
    const std::string why = why_not_reached(r, a, t);
    if (why.empty()) continue;
    ++hopeless;
    error_at(t.where,
             "'" + std::string(name_of(a.action)) + "' can never reach this 'leave': " + why +
                 "; or say how much is enough with 'until: all' or a number of bytes",
             found);
  }
  // One that can be reached is enough where any of them ends it.
  const bool any = r.leave.how == combination::any_of;
  if (any ? hopeless < counted : hopeless == 0) return;
  std::ranges::move(found, std::back_inserter(faults));
}

void lint_origin(const rule& r, const declarative_action& a, std::vector<diagnostic>& faults) {
  if (a.from.empty()) return;
  if (a.action != verb::move || !is_device_scope(r.for_each)) {
    error_at(place_of(r, policy_key::from),
             "'from' says whence parts come to a device: it goes with 'move' and a policy for each "
             "device, gpu or cpu",
             faults);
  }
  for (const target_choice& t : a.from) {
    if (t.kind == target_kind::cpu) continue;
    if (t.kind == target_kind::device && is_device_name(t.device)) continue;
    error_at(t.where,
             "'from' takes cpu and names of devices, a driver (" + driver_text() + ") or patterns",
             faults);
  }
}

void lint_twice(const std::vector<target_choice>& list, std::string_view key,
                std::vector<diagnostic>& faults) {
  for (auto t = list.begin(); t != list.end(); ++t) {
    const bool again = std::any_of(list.begin(), t, [&](const target_choice& before) {
      return before.kind == t->kind && before.device == t->device;
    });
    if (again)
      warning_at(t->where, in_quotes(key) + " names the same target again; leave one out", faults);
  }
}

// A list that names nothing leaves nothing out, which whoever wrote it hardly wanted.
void lint_only(const rule& r, std::vector<diagnostic>& faults) {
  const source_location& at = place_of(r, policy_key::only);
  if (!r.only.empty() && r.for_each == scope::host) {
    error_at(at, "'only' has no meaning with for_each: host; there is one host", faults);
  }
  const bool written =
      std::ranges::find(r.places, policy_key::only,
                        &std::pair<policy_key, source_location>::first) != r.places.end();
  if (written && r.only.empty()) {
    warning_at(at,
               "'only' lists no name and so leaves out nothing: the policy is for each " +
                   std::string(name_of(r.for_each)) + "; name some, or leave 'only' out",
               faults);
  }
  for (auto name = r.only.begin(); name != r.only.end(); ++name)
    if (std::find(r.only.begin(), name, *name) != name)
      warning_at(at, "'only' names " + in_quotes(*name) + " twice; leave one out", faults);
}

void lint_targets(const rule& r, const declarative_action& a, std::vector<diagnostic>& faults) {
  std::vector<std::string_view> names = names_of(targets());
  names.insert(names.end(), drivers().begin(), drivers().end());
  lint_twice(a.from, "from", faults);
  lint_twice(a.to, "to", faults);
  for (const target_choice& t : a.to) {
    if (t.kind == target_kind::itself && !is_device_scope(r.for_each)) {
      error_at(t.where, "'to: itself' needs a policy for each device, gpu or cpu", faults);
    }
    if (t.kind != target_kind::device || is_device_name(t.device)) continue;
    error_at(t.where,
             "'to' cannot be " + in_quotes(t.device) +
                 "; a device is named by driver and identity, such as vulkan:<uuid>, and " +
                 "a driver alone, such as vulkan, means each of its devices" +
                 name_hint(t.device, names),
             faults);
  }
}

}  // namespace

std::int64_t longest_held_ms(const condition& c) {
  std::int64_t longest = c.held_ms;
  for (const term& t : c.terms) longest = std::max(longest, t.held_ms);
  return longest;
}

bool is_plain_name(std::string_view name, std::string_view others) {
  const auto plain = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, plain);
}

std::string unsuited_text(metric_id id, comparison how) {
  const metric_entry& m = metric(id);
  std::string takes;
  for (const word<comparison>& w : comparisons()) {
    if (suits(w.value, m.measured_in)) takes += (takes.empty() ? "" : " or ") + in_quotes(w.name);
  }
  return in_quotes(m.name) + " takes " + takes + ", not " + in_quotes(name_of(how)) +
         "; it is measured as " + std::string(name_of(m.measured_in));
}

bool counts_bytes(scope judged, const metric_entry& m) {
  if (m.bytes_until == nullptr) return false;
  if (m.belongs_to == scope::host) return judged == scope::host || judged == scope::cpu;
  return offers(judged, m);
}

void lint_rule(const rule& r, std::vector<diagnostic>& faults) {
  const auto before = static_cast<std::ptrdiff_t>(faults.size());
  if (!is_plain_name(r.name, "-_.")) {
    error_at(place_of(r, policy_key::name),
             in_quotes(r.name) + " is no policy name: 1 to 64 letters, digits, '-', '_' and '.'",
             faults);
  }
  lint_only(r, faults);
  lint_metrics(r, r.enter, faults);
  lint_metrics(r, r.leave, faults);
  lint_bands(r, faults);
  lint_metrics(r, r.emergency, faults);
  lint_emergency(r, faults);
  lint_flapping(r, faults);
  lint_quota(r, faults);
  if (const auto* action = std::get_if<declarative_action>(&r.action)) {
    lint_scope(r, *action, faults);
    lint_extent(r, *action, faults);
    lint_targets(r, *action, faults);
    lint_origin(r, *action, faults);
    // Of what is wrong already, this would only be a consequence.
    if (std::none_of(faults.begin() + before, faults.end(), is_error))
      lint_reach(r, *action, faults);
  }
}

void lint_names(const std::vector<rule>& rules, std::vector<diagnostic>& faults) {
  std::map<std::string_view, const rule*> first;
  for (const rule& r : rules) {
    const auto [at, is_new] = first.emplace(r.name, &r);
    if (is_new) continue;
    error_at(
        r.where,
        "there is a policy " + in_quotes(r.name) + " already, at " + to_string(at->second->where),
        faults);
  }
}

}  // namespace terrane::policies
