// Decisions as plain sentences for people and as JSON for programs. Texts are UTF-8; a JSON text is
// one object without a trailing newline. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/explain/journal.hpp"
#include "policies/explain/record.hpp"
#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// `explain ID`: what was seen, what was considered, what was decided, where the policy says so.
std::string explain_text(const decision_record& r);
std::string explain_json(const decision_record& r);

// `plan`: the moves of a decision, one sentence each, or that there are none.
std::string plan_text(const decision& d);
std::string plan_json(const decision& d);

// `why PART`: where a part (or a session's KV) is and since when, who moved it, what last
// considered it and left it, which policies hold it away from home, and how far each policy that
// could move it is from acting. Says so when there is no such part or session.
std::string why_text(const std::string& subject, const policy_set& policies, const snapshot& now,
                     const pipeline_state& state, const journal& past);
std::string why_json(const std::string& subject, const policy_set& policies, const snapshot& now,
                     const pipeline_state& state, const journal& past);

// `policy ls`: one entry for each policy and object, with its latch and its conditions now; with
// the built-in promotion where that is on, and the built-in yield for devices that yield.
struct policy_status {
  std::string policy;
  std::string object;
  rule_mode mode = rule_mode::enforce;
  bool engaged = false;
  std::string
      state;  // "idle", "holding", "engaged", "settling", "cooling down", "stale", "backing off"
  std::vector<condition_value> conditions;  // enter's while idle, leave's while engaged
  source_location where;
};
std::vector<policy_status> policy_statuses(const policy_set& policies, const snapshot& now,
                                           const pipeline_state& state);
std::string to_text(const policy_status& s);
std::string to_json(const policy_status& s);

}  // namespace terrane::policies
