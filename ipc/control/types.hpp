// The values of the control protocol: one struct for each type and for the parameters of each
// method of io.terrane.Control.varlink, whose comments say what the fields mean. The members have
// the names of the interface; tests/ipc checks that both agree. Sizes are bytes, counts tokens.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace terrane::ipc {

// What a caller may do. Each level includes the ones before it.
BOOST_DEFINE_ENUM_CLASS(access_level, observe, operate, admin)

// ---- The daemon -------------------------------------------------------------------------------

BOOST_DEFINE_ENUM_CLASS(daemon_state, starting, ready, failed, stopping)
BOOST_DEFINE_ENUM_CLASS(device_kind, cpu, vulkan, cuda)
BOOST_DEFINE_ENUM_CLASS(device_state, ready, refused, lost)

struct model_info {
  std::string name;
  std::string file;
  std::string architecture;
  std::string format;
  std::int64_t layers = 0;
  std::int64_t context_tokens = 0;
  std::int64_t weights_bytes = 0;
  std::optional<std::string> chat_format;
};
BOOST_DESCRIBE_STRUCT(model_info, (),
                      (name, file, architecture, format, layers, context_tokens, weights_bytes,
                       chat_format))

enum class prediction_of { bytes, time, pause, token_time };
BOOST_DESCRIBE_ENUM(prediction_of, bytes, time, pause, token_time)

struct prediction_info {
  prediction_of of = prediction_of::bytes;
  std::int64_t moves = 0;
  double median_ratio = 0;
};
BOOST_DESCRIBE_STRUCT(prediction_info, (), (of, moves, median_ratio))

// A device whose memory someone wants back for a while.
struct yield_info {
  std::string device;
  std::string by;
  std::optional<std::int64_t> until_unix_ms;
};
BOOST_DESCRIBE_STRUCT(yield_info, (), (device, by, until_unix_ms))

struct status_reply {
  std::string version;
  daemon_state state = daemon_state::starting;
  std::optional<std::string> reason;            // of `failed`
  access_level access = access_level::observe;  // the caller's level
  std::int64_t pid = 0;
  double uptime_s = 0;
  std::int64_t revision = 0;
  std::string policy_revision;
  std::optional<model_info> model;
  std::int64_t devices = 0;
  std::int64_t sessions = 0;
  std::int64_t generating = 0;
  std::int64_t policies = 0;
  std::int64_t moves = 0;
  double decode_tok_s = 0;
  std::optional<std::int64_t> last_decision;
  std::vector<std::string> warnings;
  std::vector<prediction_info> predictions;
  std::vector<yield_info> yields;
  std::vector<std::string> switched_off;  // policies
};
BOOST_DESCRIBE_STRUCT(status_reply, (),
                      (version, state, reason, access, pid, uptime_s, revision, policy_revision,
                       model, devices, sessions, generating, policies, moves, decode_tok_s,
                       last_decision, warnings, predictions, yields, switched_off))

struct device_info {
  std::string name;
  device_kind kind = device_kind::cpu;
  std::string description;
  device_state state = device_state::ready;
  std::optional<std::string> reason;
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t weights_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::int64_t staging_bytes = 0;
  std::int64_t reserve_bytes = 0;
  std::int64_t others_bytes = 0;
  std::optional<double> temperature_c;
  std::int64_t parts = 0;
};
BOOST_DESCRIBE_STRUCT(device_info, (),
                      (name, kind, description, state, reason, total_bytes, free_bytes,
                       weights_bytes, kv_bytes, scratch_bytes, staging_bytes, reserve_bytes,
                       others_bytes, temperature_c, parts))

BOOST_DEFINE_ENUM_CLASS(path_way, peer, shared, memory, host, staged)

struct device_path {
  std::string from;
  std::string to;
  path_way way = path_way::staged;
  std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(device_path, (), (from, to, way, reason))

struct devices_reply {
  std::int64_t revision = 0;
  std::vector<device_info> devices;
  std::vector<device_path> paths;
  std::vector<yield_info> yields;
};
BOOST_DESCRIBE_STRUCT(devices_reply, (), (revision, devices, paths, yields))

struct part_placement {
  std::string part;
  std::string device;
  std::optional<std::string> moving_to;
  std::int64_t weights_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int64_t kv_elsewhere_bytes = 0;
  std::int64_t since_unix_ms = 0;
  std::string by;
  std::string reason;
  std::optional<std::int64_t> decision;
};
BOOST_DESCRIBE_STRUCT(part_placement, (),
                      (part, device, moving_to, weights_bytes, kv_bytes, kv_elsewhere_bytes,
                       since_unix_ms, by, reason, decision))

struct placement_reply {
  std::int64_t revision = 0;
  std::vector<part_placement> parts;
};
BOOST_DESCRIBE_STRUCT(placement_reply, (), (revision, parts))

BOOST_DEFINE_ENUM_CLASS(unit, ratio, bytes, celsius, seconds, tokens, percent, watts, count, truth,
                        time_of_day, weekday)

struct reading {
  std::string metric;
  std::string object;
  double value = 0;
  ipc::unit unit = ipc::unit::ratio;
  std::string source;
  double age_s = 0;
  bool stale = false;
};
BOOST_DESCRIBE_STRUCT(reading, (), (metric, object, value, unit, source, age_s, stale))

struct telemetry_reply {
  std::int64_t snapshot = 0;
  std::vector<reading> readings;
};
BOOST_DESCRIBE_STRUCT(telemetry_reply, (), (snapshot, readings))

struct snapshot_reply {
  std::int64_t snapshot = 0;
  std::string trace;
};
BOOST_DESCRIBE_STRUCT(snapshot_reply, (), (snapshot, trace))

// ---- Replies and sessions ---------------------------------------------------------------------

BOOST_DEFINE_ENUM_CLASS(chat_role, system, user, assistant)
BOOST_DEFINE_ENUM_CLASS(stop_reason, end_of_text, max_tokens, stop_text, context_full, stopped,
                        closed)
BOOST_DEFINE_ENUM_CLASS(session_state, waiting, prefill, generating, idle)

struct chat_message {
  chat_role role = chat_role::user;
  std::string content;
};
BOOST_DESCRIBE_STRUCT(chat_message, (), (role, content))

struct sampling_settings {
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> repetition_window;
  std::optional<std::int64_t> seed;
};
BOOST_DESCRIBE_STRUCT(sampling_settings, (),
                      (temperature, top_k, top_p, min_p, repetition_penalty, repetition_window,
                       seed))

// The control server has checked: exactly one of prompt and messages, max_tokens at least 1.
struct generate_request {
  std::optional<std::string> prompt;
  std::optional<std::vector<chat_message>> messages;
  std::optional<std::int64_t> max_tokens;
  std::optional<sampling_settings> sampling;
  std::optional<std::vector<std::string>> stop;
  std::optional<std::int64_t> session;
  std::optional<bool> keep;
};
BOOST_DESCRIBE_STRUCT(generate_request, (),
                      (prompt, messages, max_tokens, sampling, stop, session, keep))

struct generate_summary {
  stop_reason stop = stop_reason::end_of_text;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t generated_tokens = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  std::int64_t moves = 0;
  double longest_pause_ms = 0;
  std::optional<std::string> logits_hash;
  std::optional<std::string> closed_by;  // of stop = closed
};
BOOST_DESCRIBE_STRUCT(generate_summary, (),
                      (stop, prompt_tokens, cached_tokens, generated_tokens, prefill_ms, decode_ms,
                       moves, longest_pause_ms, logits_hash, closed_by))

struct generate_reply {
  std::int64_t session = 0;
  std::string text;
  std::optional<generate_summary> summary;
};
BOOST_DESCRIBE_STRUCT(generate_reply, (), (session, text, summary))

struct session_request {
  std::int64_t session = 0;
};
BOOST_DESCRIBE_STRUCT(session_request, (), (session))

struct device_bytes {
  std::string device;
  std::int64_t bytes = 0;
};
BOOST_DESCRIBE_STRUCT(device_bytes, (), (device, bytes))

struct session_info {
  std::int64_t id = 0;
  std::int64_t owner_uid = 0;
  session_state state = session_state::idle;
  std::int64_t context_tokens = 0;
  std::int64_t context_limit_tokens = 0;
  std::vector<device_bytes> kv;
  std::vector<device_bytes> kv_reserved;
  std::int64_t created_unix_ms = 0;
  double idle_s = 0;
};
BOOST_DESCRIBE_STRUCT(session_info, (),
                      (id, owner_uid, state, context_tokens, context_limit_tokens, kv, kv_reserved,
                       created_unix_ms, idle_s))

struct sessions_reply {
  std::vector<session_info> sessions;
};
BOOST_DESCRIBE_STRUCT(sessions_reply, (), (sessions))

// A method without parameters, or a reply that only says that it is done.
struct nothing {};
BOOST_DESCRIBE_STRUCT(nothing, (), ())

// ---- Moves ------------------------------------------------------------------------------------

BOOST_DEFINE_ENUM_CLASS(move_state, preparing, committed)

struct move_request {
  std::vector<std::string> parts;
  std::string device;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(move_request, (), (parts, device, revision))

struct move_reply {
  std::int64_t move = 0;
  move_state state = move_state::preparing;
  std::int64_t revision = 0;
  std::int64_t bytes_total = 0;
  std::int64_t bytes_done = 0;
  std::optional<double> pause_ms;
  std::optional<std::int64_t> bytes_in_pause;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(move_reply, (),
                      (move, state, revision, bytes_total, bytes_done, pause_ms, bytes_in_pause,
                       notes))

struct cancel_move_request {
  std::int64_t move = 0;
};
BOOST_DESCRIBE_STRUCT(cancel_move_request, (), (move))

struct spill_kv_request {
  std::int64_t session = 0;
  std::optional<std::string> device;
  std::optional<std::int64_t> keep_tokens;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(spill_kv_request, (), (session, device, keep_tokens, revision))

struct fetch_kv_request {
  std::int64_t session = 0;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(fetch_kv_request, (), (session, revision))

struct kv_reply {
  std::int64_t bytes = 0;
  std::int64_t revision = 0;
};
BOOST_DESCRIBE_STRUCT(kv_reply, (), (bytes, revision))

// ---- Tuning -----------------------------------------------------------------------------------

struct tuned_kernel_info {
  std::string device;
  std::string kernel;
  std::string shape;
  std::string by_default;
  std::string chosen;
  double default_us = 0;
  double gain = 0;
};
BOOST_DESCRIBE_STRUCT(tuned_kernel_info, (),
                      (device, kernel, shape, by_default, chosen, default_us, gain))

struct tuning_reply {
  std::vector<tuned_kernel_info> kernels;
};
BOOST_DESCRIBE_STRUCT(tuning_reply, (), (kernels))

struct tune_request {
  std::optional<std::string> device;
};
BOOST_DESCRIBE_STRUCT(tune_request, (), (device))

struct tune_reply {
  std::string timing;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::vector<tuned_kernel_info> kernels;
  bool ended_early = false;
};
BOOST_DESCRIBE_STRUCT(tune_reply, (), (timing, done, total, kernels, ended_early))

// ---- Policies and decisions -------------------------------------------------------------------

BOOST_DEFINE_ENUM_CLASS(policy_language, yaml, lua)
BOOST_DEFINE_ENUM_CLASS(policy_mode, enforce, shadow)
BOOST_DEFINE_ENUM_CLASS(diagnostic_severity, error, warning)
BOOST_DEFINE_ENUM_CLASS(condition_side, above, below, is, within, outside)
BOOST_DEFINE_ENUM_CLASS(condition_verdict, met, not_met, stale, missing)
BOOST_DEFINE_ENUM_CLASS(action_verb, move, spill, fetch, restore, decline, yield)
BOOST_DEFINE_ENUM_CLASS(action_outcome, planned, running, done, failed, cancelled)
BOOST_DEFINE_ENUM_CLASS(decision_cause, entered, again, emergency, left, restored, flapped, faulted,
                        asked)

struct condition_info {
  std::string metric;
  ipc::unit unit = ipc::unit::ratio;
  condition_side side = condition_side::above;
  double limit = 0;
  std::optional<double> upper;
  std::optional<double> value;
  std::optional<double> age_s;
  condition_verdict verdict = condition_verdict::missing;
  double met_for_s = 0;
  double needed_s = 0;
};
BOOST_DESCRIBE_STRUCT(condition_info, (),
                      (metric, unit, side, limit, upper, value, age_s, verdict, met_for_s,
                       needed_s))

struct policy_object {
  std::string object;
  std::string state;
  std::vector<condition_info> conditions;
};
BOOST_DESCRIBE_STRUCT(policy_object, (), (object, state, conditions))

struct policy_info {
  std::string name;
  std::string source;
  policy_language language = policy_language::yaml;
  policy_mode mode = policy_mode::enforce;
  bool enabled = true;
  std::int64_t priority = 0;
  std::vector<policy_object> objects;
};
BOOST_DESCRIBE_STRUCT(policy_info, (), (name, source, language, mode, enabled, priority, objects))

struct policy_list_reply {
  std::string policy_revision;
  std::vector<policy_info> policies;
  std::vector<yield_info> yields;
};
BOOST_DESCRIBE_STRUCT(policy_list_reply, (), (policy_revision, policies, yields))

struct diagnostic {
  std::string file;
  std::int64_t line = 0;
  std::int64_t column = 0;
  diagnostic_severity severity = diagnostic_severity::error;
  std::string message;
};
BOOST_DESCRIBE_STRUCT(diagnostic, (), (file, line, column, severity, message))

struct policy_lint_request {
  std::string file;
  std::string content;
};
BOOST_DESCRIBE_STRUCT(policy_lint_request, (), (file, content))

struct policy_lint_reply {
  bool valid = false;
  std::vector<diagnostic> diagnostics;
};
BOOST_DESCRIBE_STRUCT(policy_lint_reply, (), (valid, diagnostics))

struct policy_reload_reply {
  std::string policy_revision;
  std::int64_t policies = 0;
  std::vector<diagnostic> diagnostics;
  std::int64_t tests = 0;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(policy_reload_reply, (),
                      (policy_revision, policies, diagnostics, tests, notes))

struct policy_switch {
  std::string name;
  bool enabled = true;
};
BOOST_DESCRIBE_STRUCT(policy_switch, (), (name, enabled))

// not_kept, here and of yields: the order holds, but ends with the daemon, for this reason.
struct policy_switch_reply {
  std::string name;
  bool enabled = true;
  std::optional<std::string> not_kept;
};
BOOST_DESCRIBE_STRUCT(policy_switch_reply, (), (name, enabled, not_kept))

// The control server has checked: for_s is above zero.
struct yield_request {
  std::optional<std::string> device;
  std::optional<double> for_s;
};
BOOST_DESCRIBE_STRUCT(yield_request, (), (device, for_s))

BOOST_DEFINE_ENUM_CLASS(yield_state, leaving, free)

struct yield_reply {
  std::string device;
  yield_state state = yield_state::leaving;
  std::int64_t left_bytes = 0;
  std::int64_t freed_bytes = 0;
  std::optional<std::int64_t> driver_used_bytes;
  std::optional<std::int64_t> until_unix_ms;
  std::optional<std::string> not_kept;
};
BOOST_DESCRIBE_STRUCT(yield_reply, (),
                      (device, state, left_bytes, freed_bytes, driver_used_bytes, until_unix_ms,
                       not_kept))

struct end_yield_request {
  std::optional<std::string> device;
};
BOOST_DESCRIBE_STRUCT(end_yield_request, (), (device))

struct ended_yield {
  std::string device;
  std::int64_t away = 0;
};
BOOST_DESCRIBE_STRUCT(ended_yield, (), (device, away))

struct end_yield_reply {
  std::vector<ended_yield> ended;
  std::optional<std::string> not_kept;
};
BOOST_DESCRIBE_STRUCT(end_yield_reply, (), (ended, not_kept))

struct candidate_info {
  action_verb verb = action_verb::move;
  std::string subject;
  std::string from;
  std::string to;
  std::int64_t bytes = 0;
  std::optional<std::string> removed_by;
  std::string detail;
};
BOOST_DESCRIBE_STRUCT(candidate_info, (), (verb, subject, from, to, bytes, removed_by, detail))

struct action_info {
  action_verb verb = action_verb::move;
  std::string subject;
  std::string from;
  std::string to;
  std::int64_t bytes = 0;
  std::string reason;
  action_outcome outcome = action_outcome::planned;
  std::optional<std::string> detail;
  std::optional<double> pause_ms;
  std::optional<double> took_ms;
  std::optional<double> predicted_ms;
  std::optional<double> predicted_pause_ms;
  std::optional<std::int64_t> moved_bytes;
  std::optional<double> token_ms;
  std::optional<double> predicted_token_ms;
};
BOOST_DESCRIBE_STRUCT(action_info, (),
                      (verb, subject, from, to, bytes, reason, outcome, detail, pause_ms, took_ms,
                       predicted_ms, predicted_pause_ms, moved_bytes, token_ms, predicted_token_ms))

struct decision_info {
  std::int64_t id = 0;
  std::int64_t time_unix_ms = 0;
  std::int64_t snapshot = 0;
  std::string by;
  std::string object;
  decision_cause event = decision_cause::entered;
  policy_mode mode = policy_mode::enforce;
  std::optional<std::string> source;
  std::vector<condition_info> conditions;
  std::vector<candidate_info> candidates;
  std::vector<action_info> actions;
  std::vector<std::string> notes;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(decision_info, (),
                      (id, time_unix_ms, snapshot, by, object, event, mode, source, conditions,
                       candidates, actions, notes, text))

struct assumption {
  std::string metric;
  std::string object;
  double value = 0;
};
BOOST_DESCRIBE_STRUCT(assumption, (), (metric, object, value))

// The control server has checked: content and file come together.
struct plan_request {
  std::optional<std::vector<assumption>> assume;
  std::optional<std::string> file;
  std::optional<std::string> content;
};
BOOST_DESCRIBE_STRUCT(plan_request, (), (assume, file, content))

struct plan_reply {
  std::int64_t revision = 0;
  std::vector<decision_info> decisions;
  std::vector<prediction_info> predictions;
};
BOOST_DESCRIBE_STRUCT(plan_reply, (), (revision, decisions, predictions))

struct explain_request {
  std::int64_t id = 0;
};
BOOST_DESCRIBE_STRUCT(explain_request, (), (id))

struct explain_reply {
  decision_info decision;
};
BOOST_DESCRIBE_STRUCT(explain_reply, (), (decision))

struct why_request {
  std::string part;
};
BOOST_DESCRIBE_STRUCT(why_request, (), (part))

struct why_reply {
  part_placement placement;
  std::string text;
  std::optional<decision_info> decision;
  std::optional<decision_info> last_left;
};
BOOST_DESCRIBE_STRUCT(why_reply, (), (placement, text, decision, last_left))

// ---- Events -----------------------------------------------------------------------------------

BOOST_DEFINE_ENUM_CLASS(event_kind, started, stopping, device_lost, move_preparing, move_committed,
                        move_failed, kv_spilled, kv_fetched, decision, declined, policy_reloaded,
                        policy_fault, session_opened, session_closed, warning)

struct event {
  std::int64_t time_unix_ms = 0;
  event_kind kind = event_kind::warning;
  std::string message;
  std::optional<std::int64_t> decision;
  std::optional<std::string> policy;
  std::optional<std::string> part;
  std::optional<std::int64_t> session;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::optional<std::int64_t> bytes;
  std::optional<double> pause_ms;
};
BOOST_DESCRIBE_STRUCT(event, (),
                      (time_unix_ms, kind, message, decision, policy, part, session, from, to,
                       bytes, pause_ms))

struct monitor_reply {
  std::int64_t sequence = 0;
  std::int64_t lost = 0;
  std::optional<ipc::event> event;
};
BOOST_DESCRIBE_STRUCT(monitor_reply, (), (sequence, lost, event))

}  // namespace terrane::ipc
