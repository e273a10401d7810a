// What a quota of a policy counts: the KV of a user in the places that it names. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// Whether KV on that device is counted.
bool counts(const kv_quota& quota, const snapshot& now, const std::string& device);

// What a tenant holds where the quota counts, pages that are reserved for running replies included:
// nobody else can have them.
std::uint64_t held_of_quota(const kv_quota& quota, const snapshot& now, const tenant_state& tenant);

// "in all", "on GPUs", "on cuda:*".
std::string place_text(const kv_quota& quota);

// Whether the rule's quota holds for that tenant now.
bool limits(const rule& r, const snapshot& now, const std::string& tenant);

}  // namespace terrane::policies
