#include "daemon/service/admission.hpp"

#include <algorithm>

#include "daemon/loop/snapshot_builder.hpp"
#include "engine/placement/scratch.hpp"

namespace terrane::daemon {

std::vector<std::uint64_t> kv_needed(const engine::model& m, const engine::engine_options& options,
                                     const engine::engine_status& status,
                                     engine::session_id session, std::size_t prompt_tokens,
                                     std::uint32_t max_tokens) {
  const std::uint64_t page_bytes = engine::kv_page_bytes(m);
  std::uint64_t held_tokens = 0, held_pages = 0;
  const auto known = std::ranges::find(status.sessions, session, &engine::session_status::id);
  if (known != status.sessions.end()) {
    std::uint64_t bytes = 0;
    for (const engine::kv_share& k : known->kv) bytes += k.bytes;
    held_tokens = known->context_tokens;
    held_pages = bytes / (page_bytes * m.config().layers);
  }
  const std::uint64_t tokens =
      std::min<std::uint64_t>(options.context_tokens, held_tokens + prompt_tokens + max_tokens);
  const std::uint64_t pages = (tokens + kernels::page_positions - 1) / kernels::page_positions;
  const std::uint64_t more = pages - std::min(pages, held_pages);
  std::vector<std::uint64_t> out;
  for (std::size_t p = 0; p < status.parts.size(); p++) {
    if (m.parts()[p].kind != engine::part_kind::attention) continue;
    const std::uint32_t device = status.parts[p].device;
    if (out.size() <= device) out.resize(device + 1, 0);
    out[device] += more * page_bytes;
  }
  return out;
}

std::optional<policies::admission_refusal> over_quota(engine::inference_engine& e,
                                                      const control_loop& loop, user_names& users,
                                                      const engine::generate_request& request) {
  const engine::engine_status status = e.status();
  std::vector<std::string> devices;
  for (const engine::device* d : e.devices()) devices.push_back(d->info().name);
  policies::admission_request wanted;
  wanted.tenant = users.name_of(request.owner);
  const std::vector<std::uint64_t> needed =
      kv_needed(e.loaded_model(), e.options(), status, request.session, request.prompt.size(),
                request.max_tokens);
  for (std::size_t d = 0; d < needed.size(); d++)
    if (needed[d] > 0) wanted.needs.push_back({devices[d], needed[d]});
  return loop.look([&](const policies::policy_set& set, const policies::snapshot& last,
                       const policies::pipeline_state& state, const policies::journal&) {
    policies::snapshot now = last;
    put_sessions(status, devices, users, now);
    return policies::refuse_admission(set, now, state, wanted);
  });
}

}  // namespace terrane::daemon
