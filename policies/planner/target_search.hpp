// Which of the targets that an intent names its candidate goes to: the first, or for a selector the
// best, that no filter removes. Pure; any thread.
#pragma once

#include <functional>
#include <string>

#include "policies/explain/record.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/planner/intent.hpp"
#include "policies/planner/ledger.hpp"
#include "policies/planner/shared_matrix.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// What a filter says of a candidate.
struct filter_verdict {
  filter removed_by = filter::none;
  std::string detail;
};

class target_search {
 public:
  // What targets are judged by.
  struct question {
    const snapshot& now;
    const pipeline_state& state;
    const ledger& books;
    const rule& r;
    const std::string& object;     // that the rule is judged for
    const device_state* relieved;  // that the rule relieves; null: none
    whereabouts after;             // where parts are once all is done that is planned
    leaving leaves;                // whether a part is to leave in this pass as well
  };
  // What they refer to outlives it.
  target_search(question q, const intent& wanted) : q_(std::move(q)), wanted_(wanted) {}

  // Writes target, source and bytes to the candidate; those of the last one tried where none takes
  // it.
  filter_verdict choose(candidate& c) const;

 private:
  filter_verdict try_choice(const target_choice& choice, candidate& c) const;
  filter_verdict try_each(const std::string& pattern, candidate& c) const;
  filter_verdict pick(target_kind by, candidate& c) const;
  filter_verdict check_target(const candidate& c, const device_state& to) const;
  filter_verdict check_help(const candidate& c) const;
  const std::string* put_by_policy(const subject_ref& subject) const;

  question q_;
  const intent& wanted_;
};

// A device that a target stands for before anything is checked: what a score can be made of.
std::string likely_target(const intent& i, const candidate& c, const snapshot& now);

}  // namespace terrane::policies
