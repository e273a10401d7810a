// Makes the snapshot that policies look at, from the engine's status and the telemetry sources.
// Belongs to the control loop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/loop/measurements.hpp"
#include "daemon/placement/load_plan.hpp"
#include "daemon/placement/shared_matrices.hpp"
#include "daemon/telemetry/source.hpp"
#include "daemon/telemetry/user_names.hpp"
#include "engine/engine.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

// Of a move that a policy planned: the plan's id by subject (part name or session).
using planned_ids = std::map<std::string, std::uint64_t>;

// A device with no readings yet.
policies::device_state state_of(const engine::device_info& d);

// The sessions as the engine has them, and their tenants. `devices`: names, in the engine's order.
void put_sessions(const engine::engine_status& status, const std::vector<std::string>& devices,
                  user_names& users, policies::snapshot& s);

// The moves that the engine is making, instead of those that `s` has. `id_of`: the number of the
// plan that a subject (part name or session) moves by in one of the engine's moves; 0: a person's.
void put_moves(const engine::engine_status& status, const engine::model& m,
               const std::vector<std::string>& devices,
               const std::function<std::uint64_t(engine::move_id, const std::string&)>& id_of,
               policies::snapshot& s);

class snapshot_builder {
 public:
  // `limits`: on all moves of policies together. `load`: what was known when the model was loaded.
  snapshot_builder(engine::inference_engine& of, telemetry_sources sources,
                   std::vector<std::string> pinned, policies::move_limits limits = {},
                   load_facts load = {});

  // `ids`: of the moves that policies planned, by the engine's number. `completed` goes into the
  // snapshot.
  policies::snapshot make(const engine::engine_status& status, std::int64_t now_ms,
                          const std::map<engine::move_id, planned_ids>& ids,
                          std::vector<policies::completed_move> completed);

  const telemetry_sources& sources() const { return sources_; }
  // Of the patterns of parts that are pinned, those that no part of the model fits.
  std::vector<std::string> pinned_nowhere() const;

 private:
  void add_devices(policies::snapshot& s) const;
  void add_parts(policies::snapshot& s, const engine::engine_status& status, std::int64_t now_ms);
  std::vector<std::string> device_names() const;
  std::string device_name(std::uint32_t index) const {
    return engine_.devices()[index]->info().name;
  }

  engine::inference_engine& engine_;
  telemetry_sources sources_;
  std::vector<std::string> pinned_;
  policies::move_limits limits_;
  load_facts load_;
  std::vector<shared_matrix> shared_;  // by part
  measurements measured_;
  policies::model_state model_;
  mutable user_names users_;
  // When each part moved, on both clocks: told once, it stays the same to the millisecond.
  std::vector<std::pair<std::chrono::steady_clock::time_point, std::int64_t>> moved_;
  std::uint64_t sequence_ = 0;
};

}  // namespace terrane::daemon
