// Where the parts of lost devices go: what the planner (policies/placement) says, with all other
// parts held where they are; and what became of them, in a sentence. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/placement/load_plan.hpp"
#include "engine/engine.hpp"

namespace terrane::daemon {

class refuge_plan {
 public:
  // `known`: of each of `devices`, as look_at() or facts_of() said it. Model and devices outlive
  // this.
  refuge_plan(const engine::model& of, std::vector<engine::device*> devices,
              std::vector<device_facts> known, const engine::engine_options& options);

  // Nothing where the planner finds no room for the whole context of every session: less may do.
  std::optional<std::vector<std::uint32_t>> choose(const engine::lost_placement& from) const;

  // "device cuda:... is lost: its 12 parts are on cpu now, ...", or why they are nowhere.
  std::string sentence(const engine::refuge_report& report) const;

 private:
  std::string where(const engine::refuge_report& report) const;

  const engine::model& model_;
  std::vector<engine::device*> devices_;
  std::vector<device_facts> known_;
  std::uint32_t context_tokens_, sessions_;
};

}  // namespace terrane::daemon
