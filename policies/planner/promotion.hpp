// Automatic promotion: parts are moved to where a token takes less, into room that is proven to be
// there. What a placement needs is measured once it runs (scratch, what others leave), so more may
// fit than what was planned before; the planner of placement/ is asked again with what is measured,
// and its answer proposed as ordinary moves. Nothing is left where policies, pins or orders want it
// otherwise. One tick, one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policies/explain/record.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/placement/of_snapshots.hpp"
#include "policies/planner/intent.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// For how long a part that was promoted is expected to stay, to be weighed against what its move
// costs.
inline constexpr std::int64_t promoted_stay_ms = 10 * 60'000;

class promotion {
 public:
  // What this tick lets happen to a device.
  struct allowance {
    std::string left_alone;  // why nothing is to be put there, or taken from it; empty: no reason
    double room_bytes = 0;   // that may come, as long as nothing leaves
  };
  using device_question = std::function<allowance(const device_state&)>;

  // Both outlive it.
  promotion(const snapshot& now, const pipeline_state& state) : now_(now), state_(state) {}

  // Candidates in the order of a safe sequence; none where the gain is small or less than the moves
  // cost. Its notes say what a token takes before and after, and why devices are left out.
  proposal propose(const rule& r, const device_question& allowed);

  // Whether these of the proposed moves are worth making without those that the record has left
  // out: a token takes less with them, or what was left out only waits until they have made room.
  bool still_gains(const std::vector<planned_move>& moves, const decision_record& record) const;

 private:
  void bound(const device_question& allowed);
  void leave_alone(std::uint32_t device, const std::string& why);
  double token_ms_with(const std::vector<planned_move>& moves) const;
  void pin_what_stays(const rule& r);
  void rule_out_failures();
  std::string why_not_worth(double gain_s, const placement::placed& target) const;
  void add_moves(const placement::placed& target, const std::string& reason, proposal& to) const;
  void add_slack_notes(const placement::placed& target, proposal& to) const;

  const snapshot& now_;
  const pipeline_state& state_;
  placement::running running_;
  double token_ms_now_ = 0;
};

}  // namespace terrane::policies
