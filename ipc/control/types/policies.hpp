// Policies: those in force, their conditions, and how they are checked, loaded and switched. Plain
// values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "ipc/control/types/status.hpp"
#include "ipc/control/types/yields.hpp"

namespace terrane::ipc {

BOOST_DEFINE_ENUM_CLASS(policy_language, yaml, lua)
BOOST_DEFINE_ENUM_CLASS(policy_mode, enforce, shadow)
BOOST_DEFINE_ENUM_CLASS(diagnostic_severity, error, warning)
BOOST_DEFINE_ENUM_CLASS(condition_side, above, below, is, within, outside)
BOOST_DEFINE_ENUM_CLASS(condition_verdict, met, not_met, stale, missing)

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

}  // namespace terrane::ipc
