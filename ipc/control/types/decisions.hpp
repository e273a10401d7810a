// What policies decided and why, and what they would decide. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "ipc/control/types/policies.hpp"
#include "ipc/control/types/status.hpp"

namespace terrane::ipc {

BOOST_DEFINE_ENUM_CLASS(action_verb, move, spill, fetch, restore, decline, yield)
BOOST_DEFINE_ENUM_CLASS(action_outcome, planned, running, done, failed, cancelled)
BOOST_DEFINE_ENUM_CLASS(decision_cause, entered, again, emergency, left, restored, flapped, faulted,
                        asked)

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

}  // namespace terrane::ipc
