// Whether a request of a user may begin, by the quotas of policies: who holds more KV than a quota
// allows waits until the policy has done what it does about that (spilled what is idle), and is
// refused once that has not helped. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

struct admission_refusal {
  std::string policy;
  std::uint64_t held_bytes = 0, quota_bytes = 0;
  std::string message;  // a sentence: who holds what, which policy says so, what to do
};

// Nothing: it may begin. What policies do about it is under way, or about to be, is no reason to
// refuse; policies in shadow mode and those that are switched off refuse nobody.
std::optional<admission_refusal> refuse_admission(const policy_set& policies, const snapshot& now,
                                                  const pipeline_state& state,
                                                  const std::string& tenant);

// What a tenant holds where the quota counts.
std::uint64_t held_of_quota(const kv_quota& quota, const snapshot& now, const tenant_state& tenant);

}  // namespace terrane::policies
