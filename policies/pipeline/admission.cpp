#include "policies/pipeline/admission.hpp"

#include <algorithm>

#include "policies/lua/plan.hpp"
#include "policies/planner/binder.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/quota.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

// The KV of the request as a session of its own: all of it reserved, nothing of it written.
session_state session_of(const admission_request& request) {
  session_state s;
  s.id = "new";
  s.tenant = request.tenant;
  s.kv = request.needs;
  for (kv_residency& r : s.kv) {
    r.open_bytes = r.empty_bytes = r.bytes;
    r.away_bytes = 0;
  }
  return s;
}

std::uint64_t counted(const kv_quota& quota, const snapshot& now,
                      const std::vector<kv_residency>& kv, bool full_only) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : kv)
    if (counts(quota, now, r.device))
      sum += full_only ? r.bytes - std::min(r.bytes, r.open_bytes) : r.bytes;
  return sum;
}

// What a move of a session's KV takes out of where the quota counts.
std::uint64_t taken_out(const kv_quota& quota, const snapshot& now, const std::string& tenant,
                        subject_kind kind, const std::string& subject, const std::string& to,
                        std::uint64_t bytes) {
  const session_state* s = kind == subject_kind::session_kv ? find_session(now, subject) : nullptr;
  if (s == nullptr || s->tenant != tenant || to.empty() || counts(quota, now, to)) return 0;
  return std::min(bytes, counted(quota, now, s->kv, true));
}

// By moves that policies or people have begun.
std::uint64_t leaving(const kv_quota& quota, const snapshot& now, const pipeline_state& state,
                      const std::string& tenant) {
  std::uint64_t sum = 0;
  for (const auto& [id, issued] : state.issued) {
    const planned_move& m = issued.move;
    sum += taken_out(quota, now, tenant, m.kind, m.subject, m.to, m.bytes);
  }
  for (const move_in_progress& m : now.moving)
    if (!state.issued.contains(m.id))
      sum += taken_out(quota, now, tenant, m.kind, m.subject, m.to, m.bytes);
  return sum;
}

// Whether the policy acts by itself on who is past its quota.
bool acts_on_it(const rule& r) {
  const auto does = [&](const term& t) {
    const bool held =
        t.metric == metric_id::tenant_kv_bytes || t.metric == metric_id::tenant_gpu_kv_bytes;
    return held && t.compare == comparison::above && t.limit <= static_cast<double>(r.quota.bytes);
  };
  return r.enter.how == combination::all_of ? std::ranges::all_of(r.enter.terms, does)
                                            : std::ranges::any_of(r.enter.terms, does);
}

std::optional<proposal> ask(const rule& r, const object_ref& object) {
  if (const auto* declared = std::get_if<declarative_action>(&r.action))
    return propose(r, *declared, object);
  const auto* script = std::get_if<lua_action>(&r.action);
  if (script == nullptr) return std::nullopt;
  auto asked = lua::propose(r, *script, lua::entry_point::plan, object);
  if (!asked) return std::nullopt;
  return std::move(*asked);
}

bool waits(std::int64_t until_ms, const snapshot& now) {
  return until_ms != reading::never && now.time_ms < until_ms;
}

// What the policy would bring away if it were asked now; nothing while it backs off because it
// could not help.
std::uint64_t would_free(const rule& r, const policy_set& policies, const snapshot& now,
                         const pipeline_state& state, const std::string& tenant) {
  static const policy_memory fresh;
  const auto at = std::ranges::find(state.policies, r.name, &policy_memory::policy);
  const policy_memory& memory = at == state.policies.end() ? fresh : *at;
  const auto latch = std::ranges::find(memory.latches, tenant, &object_latch::object);
  const bool engaged = latch != memory.latches.end() && latch->latch.phase == latch_phase::engaged;
  if (!engaged && !acts_on_it(r)) return 0;
  if (waits(memory.retry_ms, now)) return 0;
  if (latch != memory.latches.end() && waits(latch->latch.retry_ms, now)) return 0;
  const std::optional<proposal> wanted =
      ask(r, {&now, nullptr, nullptr, nullptr, find_tenant(now, tenant)});
  if (!wanted) return 0;
  decision_record record;
  record.object = tenant;
  binder planner(now, policies.asked(), state);
  std::uint64_t sum = 0;
  for (const planned_move& m : planner.bind(r, {}, *wanted, memory, record))
    sum += taken_out(r.quota, now, tenant, m.kind, m.subject, m.to, m.bytes);
  return sum;
}

struct amounts {
  std::uint64_t held = 0, needed = 0, out = 0, in = 0;
};

std::string message_of(const rule& r, const admission_request& request, const amounts& a) {
  const std::string where = to_string(r.where);
  std::string text =
      request.tenant + " holds " + format_bytes(a.held) + " of KV cache " + place_text(r.quota);
  if (a.out > 0) text += ", of which " + format_bytes(a.out) + " are on their way out";
  if (a.in > 0) text += ", " + format_bytes(a.in) + " more are on their way there";
  if (a.needed > 0) {
    text += ", this request would reserve " + format_bytes(a.needed) +
            " for its prompt and the longest reply it asks for";
  }
  text += ", and policy '" + r.name + "'" + (where.empty() ? "" : " (" + where + ")") + " allows " +
          format_bytes(r.quota.bytes) + "; ";
  if (a.needed > 0) text += "ask for a shorter reply (--max-tokens), or ";
  if (a.needed > r.quota.bytes) return text + "have the quota raised";
  return text + "end a session (terranectl sessions, terranectl close NUMBER), and ask again";
}

std::optional<admission_refusal> refuse_by(const rule& r, const policy_set& policies,
                                           const snapshot& with, const pipeline_state& state,
                                           const admission_request& request) {
  const tenant_state& tenant = *find_tenant(with, request.tenant);
  amounts a;
  a.in = on_its_way_in(r.quota, with, state, request.tenant);
  const std::uint64_t held = held_of_quota(r.quota, with, tenant);
  const std::uint64_t all = held + a.in, quota = r.quota.bytes;
  if (all <= quota) return std::nullopt;
  a.out = leaving(r.quota, with, state, request.tenant);
  if (all <= quota + a.out) return std::nullopt;
  if (all <= quota + a.out + would_free(r, policies, with, state, request.tenant))
    return std::nullopt;
  a.needed = counted(r.quota, with, request.needs, false);
  a.held = held - a.needed;
  return admission_refusal{r.name, a.held, quota, message_of(r, request, a)};
}

}  // namespace

bool has_quota(const policy_set& policies, const snapshot& now, const std::string& tenant) {
  return std::ranges::any_of(policies.rules(),
                             [&](const rule& r) { return limits(r, now, tenant); });
}

std::optional<admission_refusal> refuse_admission(const policy_set& policies, const snapshot& now,
                                                  const pipeline_state& state,
                                                  const admission_request& request) {
  if (!has_quota(policies, now, request.tenant)) return std::nullopt;
  snapshot with = now;
  with.sessions.push_back(session_of(request));
  list_tenants(with);
  for (const rule& r : policies.rules()) {
    if (!limits(r, now, request.tenant)) continue;
    auto refused = refuse_by(r, policies, with, state, request);
    if (refused) return refused;
  }
  return std::nullopt;
}

}  // namespace terrane::policies
