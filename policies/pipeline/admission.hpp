// Whether a request of a user may begin, by the quotas of policies. It is decided by bytes: what
// the user holds, what is on its way there, and what the request would reserve, less what is on its
// way out and what the policy would bring away were the request there, must not pass the quota. A
// reply reserves all that it can need when it begins, so none that has begun grows past a quota.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct admission_request {
  std::string tenant;
  std::vector<kv_residency> needs;  // what it would reserve, by device
  // What it would were its reply a single token; none: not known.
  std::optional<std::vector<kv_residency>> least = {};
};

struct admission_refusal {
  std::string policy;
  std::uint64_t held_bytes = 0, quota_bytes = 0;
  std::string message;  // a sentence: who holds what, which policy says so, what to do
};

// Whether a quota is in force for that user. Policies in shadow mode and those that are switched
// off have none.
bool has_quota(const policy_set& policies, const snapshot& now, const std::string& tenant);

// Nothing: it may begin. `now` has the sessions as they are at this moment, and `state.issued` no
// move that is done with them.
std::optional<admission_refusal> refuse_admission(const policy_set& policies, const snapshot& now,
                                                  const pipeline_state& state,
                                                  const admission_request& request);

}  // namespace terrane::policies
