// The fields of what is recorded and kept: snapshots and the state of the pipeline. One list for
// writing and reading; a field that is missing here is lost in a replay and over a restart. `time`
// marks points on the snapshot's clock, which begins anew when the machine does; `later` fields
// that the first version did not have (versions.hpp).
#pragma once

#include <concepts>
#include <type_traits>

#include "policies/pipeline/state.hpp"
#include "policies/trace/versions.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::trace {

template <class T, class U>
concept is = std::same_as<std::remove_const_t<T>, U>;

// ---- Snapshots

template <class V>
void fields(V& v, is<host_state> auto& x) {
  v("memory_total", x.memory_total);
  v("memory_available", x.memory_available);
  v("pressure_some_avg10", x.pressure_some_avg10);
  v("cpu_pressure", x.cpu_pressure);
  v("cpu_used_ratio", x.cpu_used_ratio);
  v("cpu_others_ratio", x.cpu_others_ratio);
  v("time_of_day_s", x.time_of_day_s);
  v("weekday", x.weekday);
  v("on_battery", x.on_battery);
  v("battery_ratio", x.battery_ratio);
}

template <class V>
void fields(V& v, is<device_state> auto& x) {
  v("name", x.name);
  v("card", x.card);
  v("kind", x.kind);
  v.later(added::host_memory, x.host_memory);
  v.later(added::memory_bytes, x.memory_bytes);
  v.later(added::kv_bytes_per_s, x.kv_bytes_per_s);
  v.later(added::scratch_bytes, x.scratch_bytes);
  v.later(added::hop_ms, x.hop_ms);
  v.later(added::rank, x.rank);
  v("vram_total", x.vram_total);
  v("vram_used", x.vram_used);
  v("vram_free", x.vram_free);
  v("vram_reserved", x.vram_reserved);
  v("vram_ours", x.vram_ours);
  v("vram_others", x.vram_others);
  v("temp_c", x.temp_c);
  v("temp_limit_c", x.temp_limit_c);
  v("temp_shutdown_c", x.temp_shutdown_c);
  v("power_w", x.power_w);
  v("power_limit_w", x.power_limit_w);
  v("utilisation", x.utilisation);
  v("throttled_by_heat", x.throttled_by_heat);
  v("throttled_by_power", x.throttled_by_power);
  v("fan_ratio", x.fan_ratio);
}

template <class V>
void fields(V& v, is<part_time> auto& x) {
  v("device", x.device);
  v("ms_per_token", x.ms_per_token);
}

template <class V>
void fields(V& v, is<part_state> auto& x) {
  v("name", x.name);
  v("kind", x.kind);
  v("layer", x.layer);
  v("device", x.device);
  v("weight_bytes", x.weight_bytes);
  v("kv_bytes", x.kv_bytes);
  v.later(added::kv_blank_bytes, x.kv_blank_bytes);
  v.later(added::kv_most_bytes, x.kv_most_bytes);
  v.later(added::shared, x.shared);
  v.later(added::shared_bytes, x.shared_bytes);
  v("movable", x.movable);
  v("pinned", x.pinned);
  v.later(added::placed_by_user, x.placed_by_user);
  v.time("moved_ms", x.moved_ms);
  v("measured", x.measured);
}

template <class V>
void fields(V& v, is<kv_residency> auto& x) {
  v("device", x.device);
  v("bytes", x.bytes);
  v.later(added::open_bytes, x.open_bytes);
  v.later(added::empty_bytes, x.empty_bytes);
  v.later(added::past_bytes, x.past_bytes);
  v.later(added::away_bytes, x.away_bytes);
}

template <class V>
void fields(V& v, is<session_state> auto& x) {
  v("id", x.id);
  v("tenant", x.tenant);
  v("context_tokens", x.context_tokens);
  v("idle_s", x.idle_s);
  v("kv", x.kv);
  v("home", x.home);
}

template <class V>
void fields(V& v, is<tenant_state> auto& x) {
  v("name", x.name);
  v("sessions", x.sessions);
  v("kv", x.kv);
}

template <class V>
void fields(V& v, is<model_state> auto& x) {
  v("name", x.name);
  v("architecture", x.architecture);
  v("weight_bytes", x.weight_bytes);
  v("layers", x.layers);
  v("context_tokens", x.context_tokens);
  v.later(added::page_tokens, x.page_tokens);
}

template <class V>
void fields(V& v, is<move_in_progress> auto& x) {
  v("id", x.id);
  v("kind", x.kind);
  v("subject", x.subject);
  v("from", x.from);
  v("to", x.to);
  v("bytes", x.bytes);
}

template <class V>
void fields(V& v, is<completed_move> auto& x) {
  v("id", x.id);
  v("kind", x.kind);
  v("subject", x.subject);
  v("from", x.from);
  v("to", x.to);
  v.time("completed_ms", x.completed_ms);
  v("outcome", x.outcome);
  v("message", x.message);
  v("took_ms", x.took_ms);
  v("pause_ms", x.pause_ms);
}

template <class V>
void fields(V& v, is<link_state> auto& x) {
  v("from", x.from);
  v("to", x.to);
  v("bytes_per_s", x.bytes_per_s);
  v("pause_ms", x.pause_ms);
}

template <class V>
void fields(V& v, is<move_limits> auto& x) {
  v("link_bytes", x.link_bytes);
  v("link_per_ms", x.link_per_ms);
  v("in_flight_bytes", x.in_flight_bytes);
}

template <class V>
void fields(V& v, is<yield_order> auto& x) {
  v("device", x.device);
  v.time("since_ms", x.since_ms);
  v.time("until_ms", x.until_ms);
  v("by", x.by);
}

// What changes seldom is left out of a trace's line when it is as in the line before.
template <class V>
void fields(V& v, is<snapshot> auto& x) {
  v("host", x.host);
  v("model", x.model);
  v("devices", x.devices);
  v("parts", x.parts);
  v("sessions", x.sessions);
  v("tenants", x.tenants);
  v("moving", x.moving);
  v("completed", x.completed);
  v("links", x.links);
  v("tokens_per_s", x.tokens_per_s);
  v("limits", x.limits);
  v("yields", x.yields);
  v("disabled", x.disabled);
  v("promotes", x.promotes);
}

// ---- The state of the pipeline

template <class V>
void fields(V& v, is<condition_state> auto& x) {
  v.time("term_since_ms", x.term_since_ms);
  v.time("since_ms", x.since_ms);
}

template <class V>
void fields(V& v, is<latch_state> auto& x) {
  v("phase", x.phase);
  v("stale", x.stale);
  v("enter", x.enter);
  v("leave", x.leave);
  v("emergency", x.emergency);
  v.time("changed_ms", x.changed_ms);
  v("mean_engaged_ms", x.mean_engaged_ms);
  v("mean_idle_ms", x.mean_idle_ms);
  v("cooldown_doublings", x.cooldown_doublings);
  v.time("flapped_ms", x.flapped_ms);
  v.time("planned_ms", x.planned_ms);
  v("unfinished_moves", x.unfinished_moves);
  v.time("settled_after_ms", x.settled_after_ms);
  v.time("newest_sample_ms", x.newest_sample_ms);
  v("newer_samples", x.newer_samples);
  v.time("retry_ms", x.retry_ms);
  v("futile_plans", x.futile_plans);
  v("yielding", x.yielding);
  v.later(added::moved_something, x.moved_something);
  v.later(added::trifle, x.trifle);
  v.later(added::told, x.told);
}

template <class V>
void fields(V& v, is<object_latch> auto& x) {
  v("object", x.object);
  v("latch", x.latch);
}

template <class V>
void fields(V& v, is<spent_bytes> auto& x) {
  v.time("time_ms", x.first);
  v("bytes", x.second);
}

template <class V>
void fields(V& v, is<policy_memory> auto& x) {
  v("policy", x.policy);
  v("latches", x.latches);
  v("spent", x.spent);
  v("faults", x.faults);
  v.time("retry_ms", x.retry_ms);
}

template <class V>
void fields(V& v, is<hold> auto& x) {
  v("policy", x.policy);
  v("object", x.object);
  v("releasing", x.releasing);
  v("reason", x.reason);
}

template <class V>
void fields(V& v, is<subject_ref> auto& x) {
  v("kind", x.kind);
  v("name", x.name);
}

template <class V>
void fields(V& v, is<holding> auto& x) {
  v("home", x.home);
  v("put_on", x.put_on);
  v("by", x.by);
  v("blocked_by", x.blocked_by);
  v.time("room_since_ms", x.room_since_ms);
}

template <class V>
void fields(V& v, is<source_location> auto& x) {
  v("file", x.file);
  v("line", x.line);
  v("column", x.column);
}

template <class V>
void fields(V& v, is<planned_move> auto& x) {
  v("id", x.id);
  v("decision", x.decision);
  v("action", x.action);
  v("kind", x.kind);
  v("subject", x.subject);
  v("from", x.from);
  v("to", x.to);
  v("bytes", x.bytes);
  v.later(added::copied_bytes, x.copied_bytes);
  v("keep_tokens", x.keep_tokens);
  v.later(added::only_from, x.only_from);
  v("predicted_ms", x.predicted_ms);
  v("predicted_pause_ms", x.predicted_pause_ms);
  v.later(added::predicted_token_ms, x.predicted_token_ms);
  v("reason", x.reason);
  v("policy", x.policy);
  v("where", x.where);
}

template <class V>
void fields(V& v, is<issued_move> auto& x) {
  v("move", x.move);
  v("object", x.object);
  v.time("planned_ms", x.planned_ms);
  v("goes_home", x.goes_home);
  v("adds_hold", x.adds_hold);
}

template <class V>
void fields(V& v, is<failure_memory> auto& x) {
  v("count", x.count);
  v.time("retry_ms", x.retry_ms);
  v.later(added::was_idle, x.was_idle);
}

template <class V>
void fields(V& v, is<failure_key> auto& x) {
  v("subject", x.first);
  v("to", x.second);
}

template <class V>
void fields(V& v, is<flap_memory> auto& x) {
  v.time("returns_ms", x.returns_ms);
  v.time("pinned_until_ms", x.pinned_until_ms);
  v("device", x.device);
}

template <class V>
void fields(V& v, is<link_key> auto& x) {
  v("from", x.first);
  v("to", x.second);
}

template <class V>
void fields(V& v, is<pipeline_state> auto& x) {
  v("revision", x.revision);
  v("policies", x.policies);
  v("held", x.held);
  v("issued", x.issued);
  v("failures", x.failures);
  v("flaps", x.flaps);
  v("link_spent", x.link_spent);
  v("next_move", x.next_move);
  v("next_decision", x.next_decision);
}

}  // namespace terrane::policies::trace
