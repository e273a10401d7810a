#include "policies/planner/kv_amount.hpp"

#include <algorithm>
#include <cmath>

namespace terrane::policies {
namespace {

bool takes_from(const intent& i, const kv_residency& r, const std::string& to) {
  return r.bytes > 0 && r.device != to && (i.only_from.empty() || r.device == i.only_from);
}

// What can be taken of the KV on one device, were nothing to be kept there.
std::uint64_t movable_bytes(const intent& i, const kv_residency& r) {
  if (i.action == verb::fetch) return r.away_bytes < 0 ? r.bytes : away_bytes(r);
  // What a policy for no device spills is what lies beside its parts.
  return i.only_from.empty() ? subtract_saturating(full_bytes(r), away_bytes(r)) : full_bytes(r);
}

// Of all a session's full pages, the bytes of those that lie before the newest `keep_tokens`.
std::uint64_t older_bytes(const snapshot& now, const session_state& s, std::uint64_t keep_tokens) {
  if (keep_tokens >= s.context_tokens) return 0;
  std::uint64_t held = 0, full = 0;
  for (const kv_residency& r : s.kv) {
    held += subtract_saturating(r.bytes, r.empty_bytes);
    full += full_bytes(r);
  }
  const std::uint64_t page = now.model.page_tokens;
  if (page > 0 && s.context_tokens >= page)
    return full / (s.context_tokens / page) * ((s.context_tokens - keep_tokens) / page);
  const double share = static_cast<double>(keep_tokens) / static_cast<double>(s.context_tokens);
  // Rounded up, so that what stays is never taken for a rest that should go.
  const double kept = std::ceil(share * static_cast<double>(held));
  return subtract_saturating(held, static_cast<std::uint64_t>(kept));
}

}  // namespace

kv_amount kv_to_move(const snapshot& now, const session_state& s, const intent& i,
                     const std::string& to) {
  std::uint64_t movable = 0, past = 0, stays = 0;
  for (const kv_residency& r : s.kv) {
    const std::uint64_t here = takes_from(i, r, to) ? movable_bytes(i, r) : 0;
    movable += here;
    past += std::min(here, r.past_bytes);
    stays += subtract_saturating(full_bytes(r), here);
  }
  if (i.action == verb::spill && i.keep_tokens > 0) {
    // What has gone before is the oldest of it.
    movable = std::min(movable, subtract_saturating(older_bytes(now, s, i.keep_tokens), stays));
  }
  return {movable, subtract_saturating(movable, past)};
}

void count_kv(const kv_amount& amount, candidate& c) {
  c.bytes = c.freed_bytes = amount.bytes;
  c.copied_bytes = amount.copied_bytes;
}

std::string main_device(const session_state& s, const intent& i, const std::string& to) {
  const kv_residency* most = nullptr;
  for (const kv_residency& r : s.kv) {
    if (!takes_from(i, r, to)) continue;
    if (most == nullptr || movable_bytes(i, r) > movable_bytes(i, *most)) most = &r;
  }
  return most == nullptr ? std::string() : most->device;
}

std::uint64_t unfinished_bytes(const session_state& s, const intent& i) {
  std::uint64_t open = 0;
  if (i.action != verb::spill) return 0;
  for (const kv_residency& r : s.kv)
    if (takes_from(i, r, {})) open += r.open_bytes;
  return open;
}

}  // namespace terrane::policies
