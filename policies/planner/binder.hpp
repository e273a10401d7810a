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
  struct verdict_of_filter {
    filter removed_by = filter::none;
    std::string detail;
  };
  struct pass;  // one call of bind

  verdict_of_filter check_subject(const intent& i, const candidate& c, const pass& p) const;
  verdict_of_filter check_target(const candidate& c, const device_state& to) const;
  verdict_of_filter choose_target(const intent& i, candidate& c, const pass& p) const;
  verdict_of_filter try_choice(const target_choice& choice, candidate& c, const pass& p) const;
  verdict_of_filter try_each(const std::string& pattern, candidate& c, const pass& p) const;
  const std::string* put_by(const rule& r, const std::string& object,
                            const subject_ref& subject) const;
  verdict_of_filter pick(target_kind by, candidate& c, const pass& p) const;
  verdict_of_filter check_rate(const candidate& c, const pass& p) const;
  verdict_of_filter check_return(const candidate& c, const pass& p) const;
  verdict_of_filter check_help(const candidate& c, const pass& p) const;
  verdict_of_filter check_worth(const candidate& c, const pass& p) const;
  std::string why_past_quota(const candidate& c, const pass& p) const;
  verdict_of_filter check_quota(const candidate& c, const pass& p) const;
  std::vector<std::pair<const intent*, candidate>> in_order(const pass& p) const;
  candidate describe_candidate(const intent& i, const pass& p) const;
  void count_part(const part_state& part, candidate& c, const pass& p) const;
  whereabouts after(const pass& p) const;
  bool stays_for_others(const candidate& c, const pass& p) const;
  std::string why_nothing_is_freed(const candidate& c, const pass& p) const;
  verdict_of_filter filter_candidate(const intent& i, candidate& c, const pass& p) const;
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

// What of a session's KV a spill or fetch to `to` moves. Pages that are not full, reserved ones
// among them, stay beside their parts, and so does the KV of the newest tokens that are to be kept.
struct kv_amount {
  std::uint64_t bytes = 0;
  std::uint64_t copied_bytes = 0;  // of these, what travels
};
kv_amount kv_to_move(const snapshot& now, const session_state& s, const intent& i,
                     const std::string& to);

// How many bytes the rule's limit still allows at this time; none when it has no limit.
std::optional<std::uint64_t> allowance(const rule& r, const policy_memory& memory,
                                       std::int64_t now_ms);

}  // namespace terrane::policies
