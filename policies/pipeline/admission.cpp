#include "policies/pipeline/admission.hpp"

#include <algorithm>

#include "policies/planner/objects.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

bool counts(const kv_quota& quota, const snapshot& now, const kv_residency& kv) {
  if (quota.on == quota_in_all) return true;
  const device_state* d = find_device(now, kv.device);
  if (quota.on == quota_on_gpus) return d != nullptr && d->kind == device_kind::gpu;
  return matches_pattern(quota.on, kv.device);
}

std::string place_text(const kv_quota& quota) {
  if (quota.on == quota_in_all) return "in all";
  return quota.on == quota_on_gpus ? "on GPUs" : "on " + quota.on;
}

// Whether the policy is still to do something about it, or its moves are under way.
bool acts_still(const rule& r, const pipeline_state& state, const std::string& tenant) {
  const auto memory = std::ranges::find(state.policies, r.name, &policy_memory::policy);
  if (memory == state.policies.end()) return false;
  const auto at = std::ranges::find(memory->latches, tenant, &object_latch::object);
  if (at == memory->latches.end()) return false;
  const latch_state& latch = at->latch;
  if (latch.settling()) return true;
  const bool begins = std::ranges::any_of(
      latch.enter.term_since_ms, [](std::int64_t since) { return since != reading::never; });
  return latch.phase == latch_phase::idle && begins;
}

}  // namespace

std::uint64_t held_of_quota(const kv_quota& quota, const snapshot& now,
                            const tenant_state& tenant) {
  std::uint64_t held = 0;
  for (const kv_residency& kv : tenant.kv)
    if (counts(quota, now, kv)) held += kv.bytes;
  return held;
}

std::optional<admission_refusal> refuse_admission(const policy_set& policies, const snapshot& now,
                                                  const pipeline_state& state,
                                                  const std::string& tenant) {
  const tenant_state* of = find_tenant(now, tenant);
  if (of == nullptr) return std::nullopt;
  for (const rule& r : policies.rules()) {
    if (r.quota.bytes == 0 || r.mode != rule_mode::enforce || is_disabled(now, r.name) ||
        !is_about(r, tenant))
      continue;
    const std::uint64_t held = held_of_quota(r.quota, now, *of);
    if (held <= r.quota.bytes || acts_still(r, state, tenant)) continue;
    const std::string where = to_string(r.where);
    return admission_refusal{
        r.name, held, r.quota.bytes,
        tenant + " holds " + format_bytes(held) + " of KV cache " + place_text(r.quota) +
            ", and policy '" + r.name + "'" + (where.empty() ? "" : " (" + where + ")") +
            " allows " + format_bytes(r.quota.bytes) +
            "; end a session (terranectl sessions, terranectl close NUMBER), and ask again"};
  }
  return std::nullopt;
}

}  // namespace terrane::policies
