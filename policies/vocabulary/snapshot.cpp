#include "policies/vocabulary/snapshot.hpp"

#include <algorithm>

#include "policies/diagnostic.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

const device_state* find_device(const snapshot& s, const std::string& name) {
  const auto at = std::ranges::find(s.devices, name, &device_state::name);
  return at == s.devices.end() ? nullptr : &*at;
}

const part_state* find_part(const snapshot& s, const std::string& name) {
  const auto at = std::ranges::find(s.parts, name, &part_state::name);
  return at == s.parts.end() ? nullptr : &*at;
}

const session_state* find_session(const snapshot& s, const std::string& id) {
  const auto at = std::ranges::find(s.sessions, id, &session_state::id);
  return at == s.sessions.end() ? nullptr : &*at;
}

const tenant_state* find_tenant(const snapshot& s, const std::string& name) {
  const auto at = std::ranges::find(s.tenants, name, &tenant_state::name);
  return at == s.tenants.end() ? nullptr : &*at;
}

namespace {

void add_residency(std::vector<kv_residency>& sum, const kv_residency& one) {
  const auto at = std::ranges::find(sum, one.device, &kv_residency::device);
  if (at == sum.end()) {
    sum.push_back(one);
  } else {
    at->bytes += one.bytes;
    at->open_bytes += one.open_bytes;
    at->empty_bytes += one.empty_bytes;
    at->past_bytes += one.past_bytes;
    at->away_bytes =
        at->away_bytes < 0 || one.away_bytes < 0 ? -1 : at->away_bytes + one.away_bytes;
  }
}

}  // namespace

void list_tenants(snapshot& s) {
  s.tenants.clear();
  for (const session_state& one : s.sessions) {
    if (one.tenant.empty()) continue;
    auto at = std::ranges::lower_bound(s.tenants, one.tenant, {}, &tenant_state::name);
    if (at == s.tenants.end() || at->name != one.tenant) {
      at = s.tenants.insert(at, tenant_state{one.tenant, 0, {}});
    }
    ++at->sessions;
    for (const kv_residency& r : one.kv) add_residency(at->kv, r);
  }
}

std::uint64_t bytes_on_gpus(const snapshot& s, const std::vector<kv_residency>& kv) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : kv) {
    const device_state* d = find_device(s, r.device);
    if (d != nullptr && d->kind == device_kind::gpu) sum += r.bytes;
  }
  return sum;
}

std::uint64_t empty_bytes(const std::vector<kv_residency>& kv) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : kv) sum += r.empty_bytes;
  return sum;
}

reading free_bytes(const device_state& d) {
  if (d.vram_free.present()) return d.vram_free;
  if (!d.vram_total.present() || !d.vram_used.present()) return {};
  const reading& older =
      d.vram_total.sampled_ms < d.vram_used.sampled_ms ? d.vram_total : d.vram_used;
  return {std::max(0.0, d.vram_total.value - d.vram_used.value), older.sampled_ms, older.period_ms,
          d.vram_used.source};
}

const yield_order* find_yield(const snapshot& s, const std::string& device) {
  const auto at = std::ranges::find(s.yields, device, &yield_order::device);
  return at == s.yields.end() ? nullptr : &*at;
}

const link_state* find_link(const snapshot& s, const std::string& from, const std::string& to) {
  const auto at = std::ranges::find_if(
      s.links, [&](const link_state& l) { return l.from == from && l.to == to; });
  return at == s.links.end() ? nullptr : &*at;
}

double measured_ms(const part_state& p, const std::string& device) {
  const auto at = std::ranges::find(p.measured, device, &part_time::device);
  return at == p.measured.end() ? 0 : at->ms_per_token;
}

bool is_disabled(const snapshot& s, const std::string& policy) {
  return std::ranges::find(s.disabled, policy) != s.disabled.end();
}

bool share_memory(const device_state& a, const device_state& b) {
  return a.name == b.name || (!a.card.empty() && a.card == b.card);
}

const device_state* find_cpu(const snapshot& s) {
  const auto at = std::ranges::find(s.devices, device_kind::cpu, &device_state::kind);
  return at == s.devices.end() ? nullptr : &*at;
}

std::string to_string(const source_location& where) {
  std::string text = where.file;
  if (where.line > 0) text += ':' + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) text += ':' + std::to_string(where.column);
  return text;
}

std::string to_string(const diagnostic& d) {
  const std::string level = d.level == severity::error ? "error: " : "warning: ";
  const std::string where = to_string(d.where);
  return (where.empty() ? "" : where + ": ") + level + d.message;
}

}  // namespace terrane::policies
