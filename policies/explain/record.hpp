// Why something was or was not done: everything a decision saw, weighed and chose, kept as data and
// rendered by sentences.hpp and json.hpp. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/rule/rule.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

enum class verdict { met, not_met, stale, missing };

// One condition of a rule as it was judged.
struct condition_value {
  metric_id metric{};
  comparison compare = comparison::above;
  double limit = 0;
  double upper = 0;             // where a range ends
  double value = 0;             // meaningless when missing
  std::int64_t age_ms = 0;      // of the sample; meaningless when missing
  std::int64_t held_ms = 0;     // how long it must be met
  std::int64_t met_for_ms = 0;  // how long it has been, by sample times; 0 when not met
  verdict judged = verdict::missing;
  source_location where;
};

// What took a candidate out. `none`: it was taken. README.md has the order in which they are tried;
// recordings have the numbers, so a new one comes last.
enum class filter {
  none,
  not_needed,       // the goal was reached before it
  unknown_subject,  // no such part or session
  not_movable,      // the engine cannot move it
  pinned,
  already_moving,
  taken,           // a policy before this one moves it in this tick
  unknown_device,  // no such device, or no device fits the selector
  already_there,
  min_stay,     // it arrived too recently
  over_limit,   // some policy is relieving the target
  backing_off,  // moves to that device failed lately
  no_room,
  rate_limit,  // the policy's bytes per time are used up
  held_away,   // another policy still holds it away from home
  no_help,     // it does not use what the policy relieves
  not_worth,   // it gains less than it costs
  move_quota,  // what may move between two devices, or be under way, is used up
  flapping,    // it came home too often lately and is pinned for a while
  unfinished,  // its pages are not full or hold nothing yet
  user_quota,  // it would bring its user past what a policy lets the user hold there
};

// How good a candidate is, in the numbers that its order may go by. Those from measurements are
// absent where nothing was measured, and then decide nothing.
struct candidate_score {
  std::uint64_t relief_bytes = 0;       // that leave the object's memory
  std::optional<double> cost_ms;        // of the move: the pause, and the bytes over the link
  std::optional<double> gain_ms;        // that a token gets faster; negative: slower
  std::optional<std::int64_t> stay_ms;  // how long it is expected to stay
  double value = 0;                     // relief, or gain, for the cost; `order: best` goes by it
};

struct candidate {
  verb action = verb::move;
  subject_kind kind = subject_kind::part;
  std::string subject;
  std::string from;
  std::string to;
  std::uint64_t bytes = 0;         // that it takes on the target
  std::uint64_t copied_bytes = 0;  // of these, what travels
  std::uint64_t freed_bytes = 0;   // that are free where it is, once it is gone
  filter removed_by = filter::none;
  std::string detail;  // why, with the numbers; the reason of the policy when taken
  candidate_score score;
};

enum class decision_event {
  entered,    // the latch engaged and the policy planned
  again,      // still engaged and over the enter level after settling
  left,       // the latch released
  restored,   // parts on their way home, or still kept from it
  faulted,    // the policy's own code failed; it is skipped for a while
  emergency,  // the emergency level was reached, and the policy planned without waiting
  flapped,    // what it brings home came home too often; it is pinned for a while
};

struct decision_record {
  std::uint64_t id = 0;
  std::int64_t time_ms = 0;
  std::uint64_t snapshot_sequence = 0;
  decision_event event = decision_event::entered;
  std::string policy;
  std::string object;  // the device, part or session it was judged for; "host" for the host
  rule_mode mode = rule_mode::enforce;
  source_location where;
  std::vector<condition_value> conditions;
  std::vector<candidate> candidates;
  std::vector<planned_move> moves;  // as in the plan (or in its shadow list)
  std::vector<std::string> notes;   // declines, shortfalls, faults: whole sentences
};

const char* to_string(verdict v);
const char* to_string(filter f);
const char* to_string(decision_event e);

}  // namespace terrane::policies
