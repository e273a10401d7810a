#include "daemon/service/policy_words.hpp"

#include "policies/explain/explain.hpp"

namespace terrane::daemon {

ipc::action_verb to_protocol(policies::verb v) {
  switch (v) {
    case policies::verb::move:
      return ipc::action_verb::move;
    case policies::verb::spill:
      return ipc::action_verb::spill;
    case policies::verb::fetch:
      return ipc::action_verb::fetch;
    case policies::verb::restore:
      return ipc::action_verb::restore;
    case policies::verb::decline:
      return ipc::action_verb::decline;
    case policies::verb::yield:
      return ipc::action_verb::yield;
  }
  return ipc::action_verb::move;
}

ipc::condition_verdict to_protocol(policies::verdict v) {
  switch (v) {
    case policies::verdict::met:
      return ipc::condition_verdict::met;
    case policies::verdict::not_met:
      return ipc::condition_verdict::not_met;
    case policies::verdict::stale:
      return ipc::condition_verdict::stale;
    case policies::verdict::missing:
      return ipc::condition_verdict::missing;
  }
  return ipc::condition_verdict::missing;
}

ipc::decision_cause to_protocol(policies::decision_event e) {
  switch (e) {
    case policies::decision_event::entered:
      return ipc::decision_cause::entered;
    case policies::decision_event::again:
      return ipc::decision_cause::again;
    case policies::decision_event::left:
      return ipc::decision_cause::left;
    case policies::decision_event::restored:
      return ipc::decision_cause::restored;
    case policies::decision_event::faulted:
      return ipc::decision_cause::faulted;
    case policies::decision_event::emergency:
      return ipc::decision_cause::emergency;
    case policies::decision_event::flapped:
      return ipc::decision_cause::flapped;
  }
  return ipc::decision_cause::entered;
}

ipc::unit to_protocol(policies::unit u) {
  switch (u) {
    case policies::unit::ratio:
      return ipc::unit::ratio;
    case policies::unit::bytes:
      return ipc::unit::bytes;
    case policies::unit::celsius:
      return ipc::unit::celsius;
    case policies::unit::seconds:
      return ipc::unit::seconds;
    case policies::unit::tokens:
      return ipc::unit::tokens;
    case policies::unit::percent:
      return ipc::unit::percent;
    case policies::unit::watts:
      return ipc::unit::watts;
    case policies::unit::count:
      return ipc::unit::count;
    case policies::unit::truth:
      return ipc::unit::truth;
    case policies::unit::time_of_day:
      return ipc::unit::time_of_day;
    case policies::unit::weekday:
      return ipc::unit::weekday;
  }
  return ipc::unit::ratio;
}

ipc::condition_side to_protocol(policies::comparison c) {
  switch (c) {
    case policies::comparison::above:
      return ipc::condition_side::above;
    case policies::comparison::below:
      return ipc::condition_side::below;
    case policies::comparison::is:
      return ipc::condition_side::is;
    case policies::comparison::within:
      return ipc::condition_side::within;
    case policies::comparison::outside:
      return ipc::condition_side::outside;
  }
  return ipc::condition_side::above;
}

ipc::policy_mode to_protocol(policies::rule_mode m) {
  switch (m) {
    case policies::rule_mode::enforce:
      return ipc::policy_mode::enforce;
    case policies::rule_mode::shadow:
      return ipc::policy_mode::shadow;
  }
  return ipc::policy_mode::enforce;
}

ipc::diagnostic to_protocol(const policies::diagnostic& d) {
  ipc::diagnostic out;
  out.file = d.where.file;
  out.line = d.where.line;
  out.column = d.where.column;
  out.severity = d.level == policies::severity::error ? ipc::diagnostic_severity::error
                                                      : ipc::diagnostic_severity::warning;
  out.message = d.message;
  return out;
}

std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all) {
  std::vector<ipc::diagnostic> out;
  out.reserve(all.size());
  for (const policies::diagnostic& d : all) out.push_back(to_protocol(d));
  return out;
}

std::vector<ipc::condition_info> to_protocol(const std::vector<policies::condition_value>& all) {
  std::vector<ipc::condition_info> out;
  for (const policies::condition_value& c : all) {
    ipc::condition_info i;
    i.metric = std::string(policies::metric(c.metric).name);
    i.unit = to_protocol(policies::metric(c.metric).measured_in);
    i.side = to_protocol(c.compare);
    i.limit = c.limit;
    if (i.side == ipc::condition_side::within || i.side == ipc::condition_side::outside)
      i.upper = c.upper;
    if (c.judged != policies::verdict::missing) {
      i.value = c.value;
      i.age_s = static_cast<double>(c.age_ms) / 1000.0;
    }
    i.verdict = to_protocol(c.judged);
    i.met_for_s = static_cast<double>(c.met_for_ms) / 1000.0;
    i.needed_s = static_cast<double>(c.held_ms) / 1000.0;
    out.push_back(std::move(i));
  }
  return out;
}

std::vector<ipc::prediction_info> to_protocol(const policies::forecasts& all) {
  using policies::forecast;
  const auto word = [](forecast f) {
    switch (f) {
      case forecast::bytes:
        return ipc::prediction_of::bytes;
      case forecast::time:
        return ipc::prediction_of::time;
      case forecast::pause:
        return ipc::prediction_of::pause;
      case forecast::token_time:
        return ipc::prediction_of::token_time;
    }
    return ipc::prediction_of::bytes;
  };
  std::vector<ipc::prediction_info> out;
  for (const forecast f : policies::all_forecasts)
    if (const auto q = all.quality_of(f))
      out.push_back({word(f), static_cast<std::int64_t>(q->count), q->median_ratio});
  return out;
}

ipc::decision_info to_protocol(const policies::decision_record& from) {
  const auto count = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  ipc::decision_info d;
  d.id = count(from.id);
  d.snapshot = count(from.snapshot_sequence);
  d.by = from.policy;
  d.object = from.object;
  d.event = to_protocol(from.event);
  d.mode = to_protocol(from.mode);
  d.source = policies::to_string(from.where);
  d.conditions = to_protocol(from.conditions);
  for (const policies::candidate& c : from.candidates) {
    ipc::candidate_info i;
    i.verb = to_protocol(c.action);
    i.subject = c.subject;
    i.from = c.from;
    i.to = c.to;
    i.bytes = count(c.bytes);
    if (c.removed_by != policies::filter::none) i.removed_by = policies::to_string(c.removed_by);
    i.detail = c.detail;
    d.candidates.push_back(std::move(i));
  }
  for (const policies::planned_move& m : from.moves) {
    ipc::action_info a;
    a.verb = to_protocol(m.action);
    a.subject = m.subject;
    a.from = m.from;
    a.to = m.to;
    a.bytes = count(m.bytes);
    a.reason = m.reason;
    a.outcome = ipc::action_outcome::planned;
    if (m.predicted_ms > 0) a.predicted_ms = m.predicted_ms;
    if (m.predicted_pause_ms > 0) a.predicted_pause_ms = m.predicted_pause_ms;
    if (m.predicted_token_ms > 0) a.predicted_token_ms = m.predicted_token_ms;
    d.actions.push_back(std::move(a));
  }
  d.notes = from.notes;
  d.text = policies::explain_text(from);
  return d;
}

}  // namespace terrane::daemon
