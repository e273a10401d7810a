#include "policies/planner/quota.hpp"

#include <algorithm>

#include "policies/planner/kv_amount.hpp"
#include "policies/planner/objects.hpp"
#include "policies/planner/under_way.hpp"

namespace terrane::policies {
namespace {

// Attention of every layer keeps as much of a session: what lies beside one part is its share of
// what lies beside those of its device.
std::uint64_t comes_with_part(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                              const part_state& part, const std::string& to) {
  const bool counted = counts(quota, now, part.device);
  if (part.kind != part_kind::attention || counted || !counts(quota, now, to)) return 0;
  const auto beside = std::ranges::count_if(now.parts, [&](const part_state& p) {
    return p.kind == part_kind::attention && p.device == part.device;
  });
  std::uint64_t sum = 0;
  for (const session_state& s : now.sessions) {
    if (s.tenant != tenant) continue;
    for (const kv_residency& r : s.kv)
      if (r.device == part.device) sum += subtract_saturating(r.bytes, away_bytes(r));
  }
  return sum / static_cast<std::uint64_t>(beside);
}

}  // namespace

bool counts(const kv_quota& quota, const snapshot& now, const std::string& device) {
  if (quota.on == quota_in_all) return true;
  const device_state* d = find_device(now, device);
  if (quota.on == quota_on_gpus) return d != nullptr && d->kind == device_kind::gpu;
  return matches_pattern(quota.on, device);
}

std::uint64_t counted_bytes(const kv_quota& quota, const snapshot& now,
                            const std::vector<kv_residency>& kv) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : kv)
    if (counts(quota, now, r.device)) sum += r.bytes;
  return sum;
}

bool leads_to_quota(const kv_quota& quota, const snapshot& now, const session_state& s,
                    const std::string& to) {
  const std::string& where = to.empty() ? s.home : to;
  if (!where.empty()) return counts(quota, now, where);
  return std::ranges::any_of(now.parts, [&](const part_state& p) {
    return p.kind == part_kind::attention && counts(quota, now, p.device);
  });
}

std::uint64_t brought_in(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                         subject_kind kind, const std::string& subject, const std::string& to,
                         std::uint64_t bytes) {
  if (kind == subject_kind::part) {
    const part_state* part = find_part(now, subject);
    return part == nullptr ? 0 : comes_with_part(quota, now, tenant, *part, to);
  }
  const session_state* s = find_session(now, subject);
  if (s == nullptr || s->tenant != tenant || !leads_to_quota(quota, now, *s, to)) return 0;
  std::uint64_t elsewhere = 0;
  for (const kv_residency& r : s->kv) {
    if (counts(quota, now, r.device)) continue;
    // What comes home is all that is away; what is sent to a device, its full pages.
    elsewhere += !to.empty() ? full_bytes(r) : r.away_bytes < 0 ? r.bytes : away_bytes(r);
  }
  return std::min(bytes, elsewhere);
}

std::uint64_t taken_out(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                        subject_kind kind, const std::string& subject, const std::string& to,
                        std::uint64_t bytes) {
  const session_state* s = kind == subject_kind::session_kv ? find_session(now, subject) : nullptr;
  if (s == nullptr || s->tenant != tenant || to.empty() || counts(quota, now, to)) return 0;
  std::uint64_t full = 0;
  for (const kv_residency& r : s->kv)
    if (counts(quota, now, r.device)) full += full_bytes(r);
  return std::min(bytes, full);
}

on_its_way find_on_its_way(const kv_quota& quota, const snapshot& now, const pipeline_state& state,
                           const std::string& tenant) {
  on_its_way sum;
  for (const move_under_way& m : moves_under_way(now, state)) {
    const std::uint64_t most_in = m.by_policy ? m.bytes : UINT64_MAX;
    sum.in += brought_in(quota, now, tenant, m.kind, m.subject, m.to, most_in);
    sum.out += taken_out(quota, now, tenant, m.kind, m.subject, m.to, m.bytes);
  }
  return sum;
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
