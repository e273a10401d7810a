#include "policies/explain/sentences.hpp"

#include "policies/explain/explain.hpp"
#include "policies/explain/json.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  return format_quantity(static_cast<double>(bytes), unit::bytes);
}

std::string subject_text(subject_kind kind, const std::string& name) {
  return kind == subject_kind::part ? name : "the KV of session " + name;
}

std::string place_text(const std::string& device) {
  return device.empty() ? "beside its parts" : device;
}

std::string in_brackets(const source_location& where) {
  const std::string text = to_string(where);
  return text.empty() ? "" : " (" + text + ")";
}

std::string event_text(decision_event e) {
  switch (e) {
    case decision_event::entered:
      return "engaged";
    case decision_event::again:
      return "planned again";
    case decision_event::left:
      return "released";
    case decision_event::restored:
      return "brings things home";
    case decision_event::faulted:
      return "failed";
  }
  return {};
}

}  // namespace

std::string sentence(const condition_value& c) {
  const metric_entry& m = metric(c.metric);
  const std::string name(m.name);
  const std::string limit =
      std::string(name_of(c.compare)) + " " + format_quantity(c.limit, m.measured_in);
  if (c.judged == verdict::missing) {
    return name + " is not reported here, so " + limit + " decides nothing" + in_brackets(c.where);
  }
  std::string text = name + " is " + format_quantity(c.value, m.measured_in) + ", limit " + limit;
  if (c.held_ms > 0) {
    text +=
        " for " + format_duration(c.held_ms) + " (so far " + format_duration(c.met_for_ms) + ")";
  }
  text += ", sampled " + format_duration(c.age_ms) + " ago: ";
  text += c.judged == verdict::stale ? "stale, decides nothing" : to_string(c.judged);
  return text + in_brackets(c.where);
}

std::string sentence(const candidate& c) {
  std::string text = subject_text(c.kind, c.subject) + " stays";
  if (!c.from.empty()) text += " on " + c.from;
  text += ": " + std::string(to_string(c.removed_by));
  return c.detail.empty() ? text : text + ", " + c.detail;
}

std::string sentence(const planned_move& m) {
  std::string text = std::string(name_of(m.action)) + " " + subject_text(m.kind, m.subject);
  if (!m.from.empty()) text += " from " + m.from;
  text += " to " + place_text(m.to) + ", " + bytes_text(m.bytes);
  if (m.keep_tokens > 0)
    text += ", keeping the newest " + std::to_string(m.keep_tokens) + " tokens";
  return text + ": " + m.reason;
}

std::string headline(const decision_record& r) {
  std::string text = "policy '" + r.policy + "' " + event_text(r.event) + " for " + r.object;
  if (r.mode == rule_mode::shadow) text += " in shadow mode, which acts on nothing";
  return text;
}

std::string explain_text(const decision_record& r) {
  std::string text = "Decision " + std::to_string(r.id) + " at " + std::to_string(r.time_ms) +
                     " ms, snapshot " + std::to_string(r.snapshot_sequence) + ": " + headline(r) +
                     in_brackets(r.where) + ".\n";
  for (const condition_value& c : r.conditions) text += "  Saw: " + sentence(c) + ".\n";
  const std::string planned =
      r.mode == rule_mode::shadow ? "  Would have planned: " : "  Planned: ";
  for (const planned_move& m : r.moves) text += planned + sentence(m) + ".\n";
  for (const candidate& c : r.candidates) {
    if (c.removed_by != filter::none) text += "  Left: " + sentence(c) + ".\n";
  }
  for (const std::string& n : r.notes) text += "  " + n + "\n";
  if (r.moves.empty()) {
    text += r.candidates.empty() ? "  There was nothing to move.\n" : "  Nothing was moved.\n";
  }
  return text;
}

std::string plan_text(const decision& d) {
  std::string text;
  for (const planned_move& m : d.planned.moves) {
    text +=
        sentence(m) + " [policy " + m.policy + ", decision " + std::to_string(m.decision) + "].\n";
  }
  for (const planned_move& m : d.planned.shadow) {
    text += "In shadow mode: " + sentence(m) + " [policy " + m.policy + "].\n";
  }
  for (const decision_record& r : d.records) {
    if (!r.moves.empty()) continue;
    text += headline(r) + " and moves nothing.\n";
    for (const std::string& n : r.notes) text += "  " + n + "\n";
  }
  return text.empty() ? "No policy acts on this snapshot.\n" : text;
}

}  // namespace terrane::policies
