// What a quota of a policy counts: the KV of a user in the places that it names. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/pipeline/state.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// Whether KV on that device is counted.
bool counts(const kv_quota& quota, const snapshot& now, const std::string& device);

// What of this KV is where the quota counts, pages that are reserved for running replies included:
// nobody else can have them.
std::uint64_t counted_bytes(const kv_quota& quota, const snapshot& now,
                            const std::vector<kv_residency>& kv);

// Whether KV of the session that goes to a device (empty: to where it belongs) comes to where the
// quota counts.
bool leads_to_quota(const kv_quota& quota, const snapshot& now, const session_state& s,
                    const std::string& to);

// What a move brings of a tenant's KV from elsewhere to where the quota counts: a session's, or
// what comes with a part. At most `bytes` of a session's.
std::uint64_t brought_in(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                         subject_kind kind, const std::string& subject, const std::string& to,
                         std::uint64_t bytes);

// What a move takes of a session's KV out of where the quota counts: full pages.
std::uint64_t taken_out(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                        subject_kind kind, const std::string& subject, const std::string& to,
                        std::uint64_t bytes);

// What moves that policies or people have begun bring and take so. How much a person's move takes
// along is not always known before it is done: it may bring all that it can.
struct on_its_way {
  std::uint64_t in = 0, out = 0;
};
on_its_way find_on_its_way(const kv_quota& quota, const snapshot& now, const pipeline_state& state,
                           const std::string& tenant);

// "in all", "on GPUs", "on cuda:*".
std::string place_text(const kv_quota& quota);

// Whether the rule's quota holds for that tenant now.
bool limits(const rule& r, const snapshot& now, const std::string& tenant);

}  // namespace terrane::policies
