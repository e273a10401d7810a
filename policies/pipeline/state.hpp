// What the policy engine remembers between two ticks: latches, who holds which part away from home,
// moves that were planned and have not ended, and back-offs. The daemon owns one and passes it to
// every evaluation. Copyable, so that a question can be asked on a copy. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policies/latch/latch.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

struct object_latch {
  std::string object;
  latch_state latch;
  bool seen = false;  // in the snapshot being evaluated
};

struct policy_memory {
  std::string policy;
  std::vector<object_latch> latches;  // in the order of the snapshot's objects
  std::vector<std::pair<std::int64_t, std::uint64_t>> spent;  // time and bytes, for its rate limit
  std::int32_t faults = 0;                                    // of its code, in a row
  std::int64_t retry_ms = reading::never;                     // skipped until then after a fault
};

// One policy keeps one subject away from home for one object.
struct hold {
  std::string policy;
  std::string object;
  bool releasing = false;  // the policy let go; it goes home once no one holds it
  std::string reason;      // of the release
};

// Something that policies took away from where it was.
struct holding {
  subject_kind kind = subject_kind::part;
  std::string home;    // where it was before the first of them; empty: beside its parts
  std::string put_on;  // where the last planned move put it
  std::vector<hold> by;
  filter blocked_by = filter::none;  // what last kept it from going home
};

// A planned move whose end has not been reported.
struct issued_move {
  planned_move move;
  std::string object;  // the latch that waits for it
  std::int64_t planned_ms = 0;
  bool restores = false;    // it brings its subject home
  bool first_hold = false;  // its subject was held by no one before it
};

// Moves of one subject to one device that failed.
struct failure_memory {
  std::int32_t count = 0;
  std::int64_t retry_ms = 0;
};

struct pipeline_state {
  std::string revision;                 // of the policy set that `policies` was last bound to
  std::vector<policy_memory> policies;  // in the set's order
  std::map<std::string, holding> held;  // by subject
  std::map<std::uint64_t, issued_move> issued;
  std::map<std::pair<std::string, std::string>, failure_memory> failures;  // by subject and device
  std::uint64_t next_move = 1;
  std::uint64_t next_decision = 1;
};

}  // namespace terrane::policies
