// Scores the candidates of a proposal, filters them, and binds those that pass to concrete moves:
// greedy first fit, in the proposal's order or by score, until its goal is reached. One binder
// serves one tick, so that no subject is planned twice and no byte is booked twice. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/explain/record.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/planner/intent.hpp"
#include "policies/planner/ledger.hpp"
#include "policies/planner/shared_matrix.hpp"
#include "policies/planner/target_search.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// What a proposal is for.
struct occasion {
  const device_state* relieved = nullptr;  // the device that the policy relieves; null: none
  bool going_home = false;                 // the policy wants nothing; things only go home
  std::optional<std::int64_t> stay_ms;     // how long what is moved is expected to stay
};

// A return that came too often.
struct flap {
  subject_ref subject;
  std::string device;  // where it is now
};

class binder {
 public:
  // All of them outlive the binder; the state is only read.
  binder(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state);

  // Adds a candidate to the record for each intent and returns those that passed as moves, without
  // ids. A rule in shadow mode books nothing.
  std::vector<planned_move> bind(const rule& r, const occasion& why, const proposal& p,
                                 const policy_memory& memory, decision_record& record);

  // The policy that is relieving a device; null when there is none.
  const rule* relieved_by(const device_state& d) const { return ledger_.relieved_by(d); }

  // What may still come to a device; none where nothing tells of its memory.
  std::optional<double> room(const device_state& d) const { return ledger_.room(d); }

  // What the last bind() kept from going home because it came home too often; of a rule that
  // enforces only.
  const std::vector<flap>& flaps() const { return flaps_; }

  // Whether what the last bind() planned is next to nothing of what must go, and no limit says so.
  bool brings_a_trifle() const { return trifle_; }

 private:
  struct pass;  // one call of bind

  filter_verdict check_subject(const intent& i, const candidate& c, const pass& p) const;
  target_search find_target(const intent& i, const pass& p) const;
  filter_verdict check_rate(const candidate& c, const pass& p) const;
  filter_verdict check_return(const candidate& c, const pass& p) const;
  filter_verdict check_worth(const candidate& c, const pass& p) const;
  std::string why_past_quota(const candidate& c, const pass& p) const;
  filter_verdict check_quota(const candidate& c, const pass& p) const;
  std::vector<std::pair<const intent*, candidate>> in_order(const pass& p) const;
  candidate describe_candidate(const intent& i, const pass& p) const;
  whereabouts after(const pass& p) const;
  filter_verdict filter_candidate(const intent& i, candidate& c, const pass& p) const;
  void accept(const intent& i, const candidate& c, pass& p, std::uint64_t decision);

  const snapshot& now_;
  const std::vector<rule>& rules_;
  const pipeline_state& state_;
  ledger ledger_;
  std::map<subject_ref, std::string> taken_;  // to which device
  std::vector<flap> flaps_;
  bool trifle_ = false;
  std::map<link_key, std::uint64_t> planned_links_;  // by the moves of this tick
  std::uint64_t in_flight_bytes_ = 0;                // of moves that have not ended, and these
};

// How many bytes the rule's limit still allows at this time; none when it has no limit.
std::optional<std::uint64_t> allowance(const rule& r, const policy_memory& memory,
                                       std::int64_t now_ms);

}  // namespace terrane::policies
