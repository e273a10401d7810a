#include "daemon/service/admission.hpp"

#include <algorithm>

#include "daemon/loop/snapshot_builder.hpp"
#include "engine/placement/scratch.hpp"
#include "policies/planner/under_way.hpp"

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

namespace {

struct judged_by {
  policies::snapshot now;
  policies::pipeline_state state;
};

// The control loop knows of a move's end with its next look only; the sessions that are put beside
// its memory have that behind them.
void forget_ended_moves(judged_by& with) {
  std::erase_if(with.state.issued,
                [&](const auto& entry) { return !policies::has_begun(with.now, entry.first); });
}

// Sessions, places and moves of this moment.
void bring_up_to_date(engine::inference_engine& e, engine::engine_status status, user_names& users,
                      judged_by& with) {
  std::vector<std::string> devices;
  for (const engine::device* d : e.devices()) devices.push_back(d->info().name);
  // Once committed a move only frees what it has left behind.
  std::erase_if(status.moves, [](const engine::move_status& m) { return m.revision != 0; });
  put_sessions(status, devices, users, with.now);
  for (std::size_t p = 0; p < with.now.parts.size(); p++)
    with.now.parts[p].device = devices[status.parts[p].device];
  const auto planned_as = [&](engine::move_id, const std::string& subject) -> std::uint64_t {
    for (const auto& [id, issued] : with.state.issued)
      if (issued.move.subject == subject) return id;
    return 0;
  };
  put_moves(status, e.loaded_model(), devices, planned_as, with.now);
  forget_ended_moves(with);
}

}  // namespace

std::optional<policies::admission_refusal> over_quota(engine::inference_engine& e,
                                                      const control_loop& loop, user_names& users,
                                                      const engine::generate_request& request) {
  policies::admission_request wanted;
  wanted.tenant = users.name_of(request.owner);
  const policies::policy_set_ptr set = loop.policies();
  // Judged on copies: a plan in Lua may take long, and a tick does not wait for it.
  std::optional<judged_by> with = loop.look([&](const auto&, const policies::snapshot& last,
                                                const policies::pipeline_state& state,
                                                const auto&) -> std::optional<judged_by> {
    if (!policies::has_quota(*set, last, wanted.tenant)) return std::nullopt;
    return judged_by{last, state};
  });
  if (!with) return std::nullopt;
  // Asked after the copy was made: what had ended by then is no move any more.
  const engine::engine_status status = e.status();
  const auto needed = [&](std::uint32_t max_tokens) {
    const std::vector<std::uint64_t> bytes = kv_needed(
        e.loaded_model(), e.options(), status, request.session, request.prompt.size(), max_tokens);
    std::vector<policies::kv_residency> by_device;
    for (std::size_t d = 0; d < bytes.size(); d++)
      if (bytes[d] > 0) by_device.push_back({e.devices()[d]->info().name, bytes[d]});
    return by_device;
  };
  wanted.needs = needed(request.max_tokens);
  wanted.least = needed(1);
  bring_up_to_date(e, status, users, *with);
  return policies::refuse_admission(*set, with->now, with->state, wanted);
}

}  // namespace terrane::daemon
