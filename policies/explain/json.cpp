#include "policies/explain/json.hpp"

#include "policies/explain/explain.hpp"

namespace terrane::policies {

std::string_view name_of(subject_kind k) { return k == subject_kind::part ? "part" : "session"; }

void write_json(json_writer& out, const source_location& where) {
  out.begin_object().field("file", where.file).field("line", where.line);
  out.field("column", where.column).end_object();
}

void write_json(json_writer& out, const condition_value& c) {
  out.begin_object().field("metric", metric(c.metric).name).field("compare", name_of(c.compare));
  out.field("limit", c.limit);
  if (c.compare == comparison::within || c.compare == comparison::outside)
    out.field("upper", c.upper);
  out.key("value");
  if (c.judged == verdict::missing) {
    out.null().key("age_ms").null();
  } else {
    out.value(c.value).field("age_ms", c.age_ms);
  }
  out.field("held_ms", c.held_ms).field("met_for_ms", c.met_for_ms);
  out.field("judged", to_string(c.judged)).key("where");
  write_json(out, c.where);
  out.end_object();
}

void write_json(json_writer& out, const candidate_score& s) {
  const auto measured = [&](std::string_view name, const auto& v) {
    out.key(name);
    v ? out.value(*v) : out.null();
  };
  out.begin_object().field("relief_bytes", s.relief_bytes);
  measured("cost_ms", s.cost_ms);
  measured("gain_ms", s.gain_ms);
  measured("stay_ms", s.stay_ms);
  out.field("value", s.value).end_object();
}

void write_json(json_writer& out, const candidate& c) {
  out.begin_object().field("action", name_of(c.action)).field("kind", name_of(c.kind));
  out.field("subject", c.subject).field("from", c.from).field("to", c.to);
  out.field("bytes", c.bytes).field("removed_by", to_string(c.removed_by));
  out.field("detail", c.detail).key("score");
  write_json(out, c.score);
  out.end_object();
}

void write_json(json_writer& out, const planned_move& m) {
  out.begin_object().field("id", m.id).field("decision", m.decision);
  out.field("action", name_of(m.action)).field("kind", name_of(m.kind));
  out.field("subject", m.subject).field("from", m.from).field("to", m.to);
  out.field("bytes", m.bytes).field("keep_tokens", m.keep_tokens);
  out.field("predicted_ms", m.predicted_ms).field("predicted_pause_ms", m.predicted_pause_ms);
  out.field("predicted_token_ms", m.predicted_token_ms);
  out.field("reason", m.reason).field("policy", m.policy).key("where");
  write_json(out, m.where);
  out.end_object();
}

void write_json(json_writer& out, const decision_record& r) {
  out.begin_object().field("id", r.id).field("time_ms", r.time_ms);
  out.field("snapshot", r.snapshot_sequence).field("event", to_string(r.event));
  out.field("policy", r.policy).field("object", r.object).field("mode", name_of(r.mode));
  out.key("where");
  write_json(out, r.where);
  write_list(out, "conditions", r.conditions);
  write_list(out, "candidates", r.candidates);
  write_list(out, "moves", r.moves);
  out.key("notes").begin_array();
  for (const std::string& n : r.notes) out.value(n);
  out.end_array().end_object();
}

std::string explain_json(const decision_record& r) {
  json_writer out;
  write_json(out, r);
  return out.text();
}

std::string plan_json(const decision& d) {
  json_writer out;
  out.begin_object().field("snapshot", d.planned.snapshot_sequence);
  write_list(out, "moves", d.planned.moves);
  write_list(out, "shadow", d.planned.shadow);
  write_list(out, "decisions", d.records);
  out.end_object();
  return out.text();
}

}  // namespace terrane::policies
