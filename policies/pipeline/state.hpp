// What the policy engine remembers between two ticks: latches, who holds which part away from home,
// moves that were planned and have not ended, and back-offs. The daemon owns one and passes it to
// every evaluation. Copyable, so that a question can be asked on a copy. One thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policies/latch/latch.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

// Time and bytes of a planned move.
using spent_bytes = std::pair<std::int64_t, std::uint64_t>;
// From a device to another.
using link_key = std::pair<std::string, std::string>;

struct object_latch {
  std::string object;
  latch_state latch;
};

struct policy_memory {
  std::string policy;
  std::vector<object_latch> latches;       // in the order of the snapshot's objects
  std::vector<spent_bytes> spent;          // for its rate limit
  std::int32_t faults = 0;                 // of its code, in a row
  std::int64_t retry_ms = reading::never;  // skipped until then after a fault
};

// One policy keeps one subject away from home for one object.
struct hold {
  std::string policy;
  std::string object;
  bool releasing = false;  // the policy let go; it goes home once no one holds it
  std::string reason;      // of the release
};

// A part by its name, or a session's KV by the session's.
struct subject_ref {
  subject_kind kind = subject_kind::part;
  std::string name;

  friend auto operator<=>(const subject_ref&, const subject_ref&) = default;
};

// Something that policies took away from where it was.
struct holding {
  std::string home;    // where it was before the first of them; empty: beside its parts
  std::string put_on;  // where the last planned move put it
  std::vector<hold> by;
  filter blocked_by = filter::none;  // what last kept it from going home
  // Since when there has been room at home, for what was kept from it by a lack of room.
  std::int64_t room_since_ms = reading::never;
};

// A planned move whose end has not been reported.
struct issued_move {
  planned_move move;
  std::string object;  // the latch that waits for it
  std::int64_t planned_ms = 0;
  bool goes_home = false;  // its subject is held by no one once it is there
  bool adds_hold = false;  // its policy did not hold the subject for that object before
};

// Moves of one subject to one device that failed, or found nothing to move, in a row.
struct failure_memory {
  std::int32_t count = 0;
  std::int64_t retry_ms = 0;  // none is tried before this
  bool was_idle = false;      // the last one found nothing to move
};

// How often a subject came home of late, and whether it is pinned for that.
struct flap_memory {
  std::vector<std::int64_t> returns_ms;           // within a policy's `flapping.per_ms`
  std::int64_t pinned_until_ms = reading::never;  // never: it is not
  std::string device;                             // where it is pinned
};

using failure_key = std::pair<subject_ref, std::string>;

struct pipeline_state {
  std::string revision;                 // of the policy set that `policies` was last bound to
  std::vector<policy_memory> policies;  // in the set's order
  std::map<subject_ref, holding> held;
  std::map<std::uint64_t, issued_move> issued;
  std::map<failure_key, failure_memory> failures;
  std::map<subject_ref, flap_memory> flaps;
  std::map<link_key, std::vector<spent_bytes>> link_spent;
  std::uint64_t next_move = 1;
  std::uint64_t next_decision = 1;
};

}  // namespace terrane::policies
