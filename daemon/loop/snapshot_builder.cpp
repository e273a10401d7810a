#include "daemon/loop/snapshot_builder.hpp"

#include <algorithm>

#include <fnmatch.h>

#include "engine/placement/scratch.hpp"

namespace terrane::daemon {

namespace {

policies::part_kind kind_of(engine::part_kind k) {
  switch (k) {
    case engine::part_kind::embedding:
      return policies::part_kind::embedding;
    case engine::part_kind::attention:
      return policies::part_kind::attention;
    case engine::part_kind::feed_forward:
      return policies::part_kind::feed_forward;
    case engine::part_kind::head:
      return policies::part_kind::head;
  }
  return policies::part_kind::feed_forward;
}

std::uint32_t embedding_of(const engine::model& m) {
  std::uint32_t p = 0;
  while (p < m.parts().size() && m.parts()[p].kind != engine::part_kind::embedding) p++;
  return p;
}

kv_shape kv_of(const engine::model& m) {
  kv_shape out;
  for (std::uint32_t p = 0; p < m.parts().size(); p++)
    if (m.parts()[p].kind == engine::part_kind::attention) out.parts.push_back(p);
  out.position_bytes =
      static_cast<double>(engine::kv_page_bytes(m)) / static_cast<double>(kernels::page_positions);
  return out;
}

bool fits(const std::string& pattern, const std::string& part) {
  return fnmatch(pattern.c_str(), part.c_str(), 0) == 0;
}

}  // namespace

policies::device_state state_of(const engine::device_info& d) {
  policies::device_state state;
  state.name = d.name;
  state.card = d.card;
  state.host_memory = d.host_memory;
  state.memory_bytes = d.memory_bytes;
  state.kind =
      d.kind == engine::device_kind::cpu ? policies::device_kind::cpu : policies::device_kind::gpu;
  return state;
}

void put_sessions(const engine::engine_status& status, const std::vector<std::string>& devices,
                  user_names& users, policies::snapshot& s) {
  s.sessions.clear();
  for (const engine::session_status& from : status.sessions) {
    policies::session_state to;
    to.id = std::to_string(from.id);
    to.tenant = users.name_of(from.owner);
    to.context_tokens = from.context_tokens;
    to.idle_s = from.idle_s;
    for (std::uint32_t d = 0; d < from.kv.size(); d++) {
      const engine::kv_share& k = from.kv[d];
      if (k.bytes == 0) continue;
      to.kv.push_back({devices[d], k.bytes, k.open_bytes, k.empty_bytes, k.past_bytes,
                       static_cast<std::int64_t>(k.away_bytes)});
    }
    s.sessions.push_back(std::move(to));
  }
  policies::list_tenants(s);
}

void put_moves(const engine::engine_status& status, const engine::model& m,
               const std::vector<std::string>& devices,
               const std::function<std::uint64_t(engine::move_id, const std::string&)>& id_of,
               policies::snapshot& s) {
  s.moving.clear();
  for (const engine::move_status& move : status.moves) {
    for (const engine::part_move& p : move.parts) {
      const std::string& part = m.parts()[p.part].name;
      const engine::part_status& now = status.parts[p.part];
      s.moving.push_back({id_of(move.id, part), policies::subject_kind::part, part,
                          devices[now.device], devices[p.device], now.weight_bytes + now.kv_bytes});
    }
    if (move.spill) {
      const std::string session = std::to_string(move.spill->session);
      s.moving.push_back({id_of(move.id, session), policies::subject_kind::session_kv, session, "",
                          move.spill->device ? devices[*move.spill->device] : "",
                          move.bytes_total});
    }
  }
}

snapshot_builder::snapshot_builder(engine::inference_engine& of, telemetry_sources sources,
                                   std::vector<std::string> pinned, policies::move_limits limits,
                                   load_facts load)
    : engine_(of),
      sources_(std::move(sources)),
      pinned_(std::move(pinned)),
      limits_(limits),
      load_(std::move(load)),
      shared_(shared_matrices(of.loaded_model())),
      measured_(embedding_of(of.loaded_model()), load_.first_times, kv_of(of.loaded_model())) {
  const engine::model& m = engine_.loaded_model();
  model_.name = m.config().name;
  model_.architecture = m.config().architecture;
  model_.weight_bytes = m.weight_bytes();
  model_.layers = m.config().layers;
  model_.context_tokens = engine_.options().context_tokens;
  model_.page_tokens = kernels::page_positions;
}

std::vector<std::string> snapshot_builder::pinned_nowhere() const {
  std::vector<std::string> out;
  const auto& parts = engine_.loaded_model().parts();
  for (const std::string& pattern : pinned_) {
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const engine::model_part& p) { return fits(pattern, p.name); }))
      out.push_back(pattern);
  }
  return out;
}

policies::snapshot snapshot_builder::make(const engine::engine_status& status, std::int64_t now_ms,
                                          const std::map<engine::move_id, planned_ids>& ids,
                                          std::vector<policies::completed_move> completed) {
  policies::snapshot s;
  s.sequence = ++sequence_;
  s.time_ms = now_ms;
  s.model = model_;
  add_devices(s);
  add_parts(s, status, now_ms);
  put_sessions(status, device_names(), users_, s);
  const auto id_of = [&](engine::move_id id, const std::string& subject) -> std::uint64_t {
    const auto known = ids.find(id);
    if (known == ids.end()) return 0;
    const auto found = known->second.find(subject);
    return found == known->second.end() ? 0 : found->second;
  };
  put_moves(status, engine_.loaded_model(), device_names(), id_of, s);
  s.completed = std::move(completed);
  s.limits = limits_;
  s.promotes = load_.promotes;
  measured_.take(status, now_ms);
  measured_.put_into(s, device_names());
  sample_all(sources_, s);
  return s;
}

std::vector<std::string> snapshot_builder::device_names() const {
  std::vector<std::string> names;
  for (const engine::device* d : engine_.devices()) names.push_back(d->info().name);
  return names;
}

void snapshot_builder::add_devices(policies::snapshot& s) const {
  for (const engine::device* d : engine_.devices()) s.devices.push_back(state_of(d->info()));
  for (std::size_t d = 0; d < s.devices.size() && d < load_.devices.size(); d++) {
    const load_facts::device& known = load_.devices[d];
    s.devices[d].scratch_bytes = known.scratch_bytes;
    s.devices[d].hop_ms = known.hop_ms;
    s.devices[d].rank = known.rank;
  }
}

void snapshot_builder::add_parts(policies::snapshot& s, const engine::engine_status& status,
                                 std::int64_t now_ms) {
  const std::vector<engine::model_part>& parts = engine_.loaded_model().parts();
  moved_.resize(parts.size());
  for (std::size_t p = 0; p < parts.size(); p++) {
    const engine::part_status& from = status.parts[p];
    policies::part_state to;
    to.name = parts[p].name;
    to.kind = kind_of(parts[p].kind);
    if (parts[p].kind == engine::part_kind::attention ||
        parts[p].kind == engine::part_kind::feed_forward)
      to.layer = static_cast<int>(parts[p].layer);
    to.device = device_name(from.device);
    to.weight_bytes = from.weight_bytes;
    to.kv_bytes = from.kv_bytes;
    to.kv_blank_bytes = from.kv_blank_bytes;
    if (p < load_.kv_most_bytes.size()) to.kv_most_bytes = load_.kv_most_bytes[p];
    to.shared = shared_[p].number;
    to.shared_bytes = shared_[p].bytes;
    to.pinned = std::any_of(pinned_.begin(), pinned_.end(),
                            [&](const std::string& pattern) { return fits(pattern, to.name); });
    to.placed_by_user = from.by.starts_with("user ");
    if (from.moved_at) {
      if (moved_[p].first != *from.moved_at) {
        const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - *from.moved_at);
        moved_[p] = {*from.moved_at, now_ms - age.count()};
      }
      to.moved_ms = moved_[p].second;
    }
    s.parts.push_back(std::move(to));
  }
}

}  // namespace terrane::daemon
