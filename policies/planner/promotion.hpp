// Automatic promotion: parts are moved to where a token takes less, into room that is proven to be
// there. What a placement needs is measured once it runs (scratch, what others leave), so more may
// fit than what was planned before; the planner of placement/ is asked again with what is measured,
// and its answer proposed as ordinary moves. Nothing is left where policies, pins or orders want it
// otherwise. One tick, one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
  // Why nothing is to be put on a device, or taken from it; empty: no reason.
  using device_question = std::function<std::string(const device_state&)>;

  // Both outlive it.
  promotion(const snapshot& now, const pipeline_state& state) : now_(now), state_(state) {}

  // Candidates in the order of a safe sequence; none where the gain is small or less than the moves
  // cost. Its notes say what a token takes before and after, and why devices are left out.
  proposal propose(const rule& r, const device_question& left_alone);

  // What a token is predicted to take with these of the proposed moves made, in milliseconds.
  double token_ms_with(const std::vector<planned_move>& moves) const;
  double token_ms_now() const { return token_ms_now_; }

 private:
  void leave_alone(const device_question& left_alone);
  void pin_what_stays(const rule& r);
  void rule_out_failures();
  std::string why_not_worth(double gain_s, const placement::placed& target) const;
  void add_moves(const placement::placed& target, const std::string& reason, proposal& to) const;

  const snapshot& now_;
  const pipeline_state& state_;
  placement::running running_;
  double token_ms_now_ = 0;
};

}  // namespace terrane::policies
