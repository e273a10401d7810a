// Filters the candidates of a proposal and binds those that pass to concrete moves: greedy first
// fit, in the proposal's order, until its goal is reached. One binder serves one tick, so that no
// subject is planned twice and no byte is booked twice. One thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "policies/explain/record.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/planner/intent.hpp"
#include "policies/planner/ledger.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

class binder {
 public:
  // All of them outlive the binder; the state is only read.
  binder(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state);

  // Adds a candidate to the record for each intent and returns those that passed as moves, without
  // ids. A rule in shadow mode books nothing.
  std::vector<planned_move> bind(const rule& r, const proposal& p, const policy_memory& memory,
                                 decision_record& record);

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
  const std::string* put_by(const rule& r, const std::string& object,
                            const subject_ref& subject) const;
  verdict_of_filter pick(target_kind by, candidate& c, const pass& p) const;
  verdict_of_filter check_rate(const candidate& c, const pass& p) const;
  candidate describe_candidate(const intent& i) const;
  verdict_of_filter filter_candidate(const intent& i, candidate& c, const pass& p) const;
  planned_move accept(const intent& i, const candidate& c, pass& p, std::uint64_t decision);

  const snapshot& now_;
  const pipeline_state& state_;
  ledger ledger_;
  std::set<subject_ref> taken_;
};

// How many bytes the rule's limit still allows at this time; none when it has no limit.
std::optional<std::uint64_t> allowance(const rule& r, const policy_memory& memory,
                                       std::int64_t now_ms);

}  // namespace terrane::policies
