#include "policies/planner/quota.hpp"

#include "policies/planner/objects.hpp"

namespace terrane::policies {

bool counts(const kv_quota& quota, const snapshot& now, const std::string& device) {
  if (quota.on == quota_in_all) return true;
  const device_state* d = find_device(now, device);
  if (quota.on == quota_on_gpus) return d != nullptr && d->kind == device_kind::gpu;
  return matches_pattern(quota.on, device);
}

std::uint64_t held_of_quota(const kv_quota& quota, const snapshot& now,
                            const tenant_state& tenant) {
  std::uint64_t held = 0;
  for (const kv_residency& kv : tenant.kv)
    if (counts(quota, now, kv.device)) held += kv.bytes;
  return held;
}

std::string place_text(const kv_quota& quota) {
  if (quota.on == quota_in_all) return "in all";
  return quota.on == quota_on_gpus ? "on GPUs" : "on " + quota.on;
}

bool limits(const rule& r, const snapshot& now, const std::string& tenant) {
  return r.quota.bytes > 0 && r.mode == rule_mode::enforce && !is_disabled(now, r.name) &&
         is_about(r, tenant);
}

}  // namespace terrane::policies
