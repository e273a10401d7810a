// A latch: engages when its rule's `enter` has been met for long enough, releases when `leave` has,
// and stays as it is between the two. `emergency`, a level past `enter`, engages without the hold
// and the cool-down. Judged on samples, never on the passing of ticks: a stale or
// absent sample decides nothing. After a plan it waits for its moves to end and for two newer
// samples. Pure: the same state, rule and snapshot give the same next state. One thread at a time
// per state.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "policies/explain/record.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// How long the terms of one condition, and their combination, have been true, by sample times.
struct condition_state {
  std::array<std::int64_t, max_terms> term_since_ms;
  std::int64_t since_ms = reading::never;
  condition_state() { term_since_ms.fill(reading::never); }
};

enum class latch_phase { idle, engaged };

struct latch_state {
  latch_phase phase = latch_phase::idle;
  bool stale = false;  // the last judgement lacked a fresh sample
  condition_state enter;
  condition_state leave;
  condition_state emergency;
  std::int64_t changed_ms = reading::never;        // when the phase last changed
  std::int64_t mean_engaged_ms = 0;                // how long it stays engaged; 0: not measured
  std::int64_t mean_idle_ms = 0;                   // and how long it then stays idle
  std::int32_t cooldown_doublings = 0;             // because of flapping
  std::int64_t flapped_ms = reading::never;        // when it last flapped
  std::int64_t planned_ms = reading::never;        // when its policy last planned for this object
  std::uint32_t unfinished_moves = 0;              // of its last plan
  std::int64_t settled_after_ms = reading::never;  // the last of them ended then
  std::int64_t newest_sample_ms = reading::never;  // newest that was counted after that
  int newer_samples = 2;                           // counted after that; two settle it
  std::int64_t retry_ms = reading::never;  // a plan that achieved nothing is not tried before this
  std::int32_t futile_plans = 0;           // in a row
  bool yielding = false;        // its policy keeps everything away from its device while engaged
  bool moved_something = true;  // one of the moves of its last plan had something to move
  bool trifle = false;          // its last plan brought next to nothing of what is needed
  std::uint64_t told = 0;       // a number for why its last plan moved nothing; 0: it did

  bool settling() const { return unfinished_moves > 0 || newer_samples < 2; }
};

enum class latch_signal {
  none,
  entered,    // engaged now: plan
  again,      // engaged for a while, settled, and `enter` is met: plan more
  emergency,  // engaged now or before, and `emergency` is met: plan without waiting
  left,       // released now: undo
};

// Moves the latch on by one snapshot.
latch_signal step(latch_state& latch, const rule& r, const object_ref& object);

// A plan was made from the signal, and `moves` of it are under way. With none, or when all they
// bring is a trifle of what is needed, the plan was futile and the next attempt waits, longer each
// time.
void planned(latch_state& latch, std::int64_t now_ms, std::uint32_t moves, bool trifle = false);
// `moves` that bring things home for this latch are under way; they count for settling only.
void going_home(latch_state& latch, std::uint32_t moves);
// What its moves brought home keeps coming back: the cool-down doubles, until it has not flapped
// for twice `flapping.per_ms`: the subject is pinned for the first half of that.
void flapped(latch_state& latch, const rule& r, std::int64_t now_ms);
// The time between two plans, doublings included.
std::int64_t cooldown_ms(const latch_state& latch, const rule& r, std::int64_t now_ms);
// One of its moves ended. A plan of which all moves found nothing to move was futile.
void move_ended(latch_state& latch, std::int64_t completed_ms, bool moved);

// The terms of a condition as they are now, for a record.
std::vector<condition_value> describe(const condition& c, const condition_state& state,
                                      const object_ref& object);

}  // namespace terrane::policies
