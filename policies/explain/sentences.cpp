#include "policies/explain/sentences.hpp"

#include "policies/explain/explain.hpp"
#include "policies/explain/json.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

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
    case decision_event::emergency:
      return "acts at once, in an emergency,";
    case decision_event::flapped:
      return "brings things home again and again";
  }
  return {};
}

// Parts that go the same way for the same reason are told in one sentence from this many on.
constexpr std::size_t told_together = 4;

// How many moves from `first` on are alike but for the part.
std::size_t alike(const std::vector<planned_move>& moves, std::size_t first) {
  const planned_move& m = moves[first];
  std::size_t n = 1;
  while (first + n < moves.size() && m.kind == subject_kind::part) {
    const planned_move& next = moves[first + n];
    if (next.kind != m.kind || next.action != m.action || next.from != m.from || next.to != m.to ||
        next.reason != m.reason) {
      break;
    }
    n++;
  }
  return n;
}

std::string names_together(std::size_t count, const std::string& first, const std::string& last) {
  return std::to_string(count) + " parts (" + first + " to " + last + ")";
}

std::string sentence_together(const std::vector<planned_move>& moves, std::size_t first,
                              std::size_t count) {
  planned_move all = moves[first];
  all.subject = names_together(count, all.subject, moves[first + count - 1].subject);
  for (std::size_t i = 1; i < count; i++) all.bytes += moves[first + i].bytes;
  return sentence(all);
}

// " on gpu: no room, ...": of what was left there.
std::string where_and_why(const candidate& c) {
  const std::string text =
      (c.from.empty() ? "" : " on " + c.from) + ": " + std::string(to_string(c.removed_by));
  return c.detail.empty() ? text : text + ", " + c.detail;
}

// How many candidates from `first` on were left for the same reason, but for the part.
std::size_t alike(const std::vector<candidate>& left, std::size_t first) {
  const candidate& c = left[first];
  std::size_t n = 1;
  while (first + n < left.size() && c.kind == subject_kind::part) {
    const candidate& next = left[first + n];
    if (next.kind != c.kind || where_and_why(next) != where_and_why(c)) break;
    n++;
  }
  return n;
}

std::string left_lines(const std::vector<candidate>& candidates) {
  std::vector<candidate> left;
  for (const candidate& c : candidates)
    if (c.removed_by != filter::none) left.push_back(c);
  std::string text;
  for (std::size_t i = 0; i < left.size();) {
    const std::size_t n = alike(left, i);
    const std::size_t taken = n >= told_together ? n : 1;
    text += "  Left: ";
    text += taken == 1 ? sentence(left[i])
                       : names_together(taken, left[i].subject, left[i + taken - 1].subject) +
                             " stay" + where_and_why(left[i]);
    text += ".\n";
    i += taken;
  }
  return text;
}

}  // namespace

std::string sentence(const condition_value& c) {
  const metric_entry& m = metric(c.metric);
  const std::string name(m.name);
  const std::string limit = limit_text({c.metric, c.compare, c.limit, c.upper, 0, {}});
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

std::string awaited(const condition_value& c) {
  const metric_entry& m = metric(c.metric);
  std::string text =
      std::string(m.name) + " is " + limit_text({c.metric, c.compare, c.limit, c.upper, 0, {}});
  if (c.held_ms > 0) text += " for " + format_duration(c.held_ms);
  if (c.judged == verdict::missing)
    return text + " (" + std::string(m.name) + " is not reported here, so that decides nothing)" +
           in_brackets(c.where);
  text += " (now " + format_quantity(c.value, m.measured_in);
  if (c.held_ms > 0) text += ", met for " + format_duration(c.met_for_ms);
  text += ", sampled " + format_duration(c.age_ms) + " ago: ";
  text += c.judged == verdict::stale ? "stale, decides nothing" : to_string(c.judged);
  return text + ")" + in_brackets(c.where);
}

std::string sentence(const candidate& c) {
  return subject_text(c.kind, c.subject) + " stays" + where_and_why(c);
}

std::string sentence(const planned_move& m) {
  std::string text = std::string(name_of(m.action)) + " " + subject_text(m.kind, m.subject);
  if (!m.from.empty()) text += " from " + m.from;
  text += " to " + place_text(m.to) + ", " + format_bytes(m.bytes);
  if (m.keep_tokens > 0)
    text += ", keeping the newest " + std::to_string(m.keep_tokens) + " tokens";
  return text + ": " + m.reason;
}

std::string move_lines(const std::vector<planned_move>& moves, const std::string& lead) {
  std::string text;
  for (std::size_t i = 0; i < moves.size();) {
    const std::size_t n = alike(moves, i);
    const std::size_t taken = n >= told_together ? n : 1;
    text += lead + (taken > 1 ? sentence_together(moves, i, taken) : sentence(moves[i])) + ".\n";
    i += taken;
  }
  return text;
}

std::string headline(const decision_record& r) {
  std::string text = "policy '" + r.policy + "' " + event_text(r.event) + " for " + r.object;
  if (r.mode == rule_mode::shadow) text += " in shadow mode, which acts on nothing";
  return text;
}

std::string explain_text(const decision_record& r) {
  std::string text = (r.id == 0 ? "A dry run" : "Decision " + std::to_string(r.id)) +
                     " on snapshot " + std::to_string(r.snapshot_sequence) + ": " + headline(r) +
                     in_brackets(r.where) + ".\n";
  for (const condition_value& c : r.conditions) text += "  Saw: " + sentence(c) + ".\n";
  const std::string planned =
      r.mode == rule_mode::shadow ? "  Would have planned: " : "  Planned: ";
  text += move_lines(r.moves, planned);
  text += left_lines(r.candidates);
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
