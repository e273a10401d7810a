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
session_state session_of(const std::string& tenant, const std::vector<kv_residency>& needs) {
  session_state s;
  s.id = "new";
  s.tenant = tenant;
  s.kv = needs;
  for (kv_residency& r : s.kv) {
    r.open_bytes = r.empty_bytes = r.bytes;
    r.away_bytes = 0;
  }
  return s;
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
  std::uint64_t held = 0, out = 0, in = 0;
};

// What is past the quota once the user holds what `needs` says as well; nothing: that is within it.
std::optional<amounts> past_quota(const rule& r, const policy_set& policies, const snapshot& now,
                                  const pipeline_state& state, const std::string& tenant,
                                  const std::vector<kv_residency>& needs) {
  snapshot with = now;
  with.sessions.push_back(session_of(tenant, needs));
  list_tenants(with);
  const on_its_way moves = find_on_its_way(r.quota, with, state, tenant);
  const amounts a{counted_bytes(r.quota, with, find_tenant(with, tenant)->kv), moves.out, moves.in};
  const std::uint64_t all = a.held + a.in, quota = r.quota.bytes;
  if (all <= quota + a.out) return std::nullopt;
  if (all <= quota + a.out + would_free(r, policies, with, state, tenant)) return std::nullopt;
  return a;
}

// What would help: only what would.
std::string advice(std::uint64_t quota, std::uint64_t needed, std::optional<std::uint64_t> least,
                   bool shorter_fits) {
  const std::string shorter = "ask for a shorter reply (--max-tokens)";
  const std::string end = "end a session (terranectl sessions, terranectl close NUMBER)";
  if (shorter_fits && needed <= quota) return shorter + ", or " + end + ", and ask again";
  if (shorter_fits) return shorter + ", or have the quota raised";
  if (needed <= quota) return end + ", and ask again";
  // Whether any reply to the prompt would fit, nobody has said.
  if (!least) return "this request alone is past that: have the quota raised";
  if (*least < needed && *least <= quota)
    return end + " and " + shorter + ", or have the quota raised";
  return "no reply to this prompt fits, however short: have the quota raised";
}

std::string message_of(const rule& r, const admission_request& request, const amounts& a,
                       std::uint64_t needed, const std::string& what_to_do) {
  const std::string where = to_string(r.where);
  std::string text =
      request.tenant + " holds " + format_bytes(a.held) + " of KV cache " + place_text(r.quota);
  if (a.out > 0) text += ", of which " + format_bytes(a.out) + " are on their way out";
  if (a.in > 0) text += ", " + format_bytes(a.in) + " more are on their way there";
  if (needed > 0) {
    text += ", this request would reserve " + format_bytes(needed) +
            " for its prompt and the longest reply it asks for";
  }
  return text + ", and policy '" + r.name + "'" + (where.empty() ? "" : " (" + where + ")") +
         " allows " + format_bytes(r.quota.bytes) + "; " + what_to_do;
}

std::optional<admission_refusal> refuse_by(const rule& r, const policy_set& policies,
                                           const snapshot& now, const pipeline_state& state,
                                           const admission_request& request) {
  std::optional<amounts> past = past_quota(r, policies, now, state, request.tenant, request.needs);
  if (!past) return std::nullopt;
  const std::uint64_t needed = counted_bytes(r.quota, now, request.needs);
  std::optional<std::uint64_t> least;
  if (request.least) least = counted_bytes(r.quota, now, *request.least);
  const bool shorter_fits = least && *least < needed &&
                            !past_quota(r, policies, now, state, request.tenant, *request.least);
  past->held -= needed;
  return admission_refusal{
      r.name, past->held, r.quota.bytes,
      message_of(r, request, *past, needed, advice(r.quota.bytes, needed, least, shorter_fits))};
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
  for (const rule& r : policies.rules()) {
    if (!limits(r, now, request.tenant)) continue;
    auto refused = refuse_by(r, policies, now, state, request);
    if (refused) return refused;
  }
  return std::nullopt;
}

}  // namespace terrane::policies
