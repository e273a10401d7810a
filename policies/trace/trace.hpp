// A recording of what the policies saw and decided, and its replay. A trace is text, one JSON
// object a line: first the policies and the state, then each tick's snapshot, of which only what
// changed since the line before, and what was decided when anything was. Replayed with its own
// policies it gives the same decisions, bit for bit, in any process; with others it says what would
// have been different. Writer and replay belong to one thread each.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/pipeline/evaluate.hpp"
#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/trace/versions.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::trace {

// Makes the lines of one file. A file stands for itself: another begins with begin() again.
class writer {
 public:
  // `state` is the one that the next tick begins with. `unix_offset_ms` added to a snapshot's time
  // is milliseconds since 1970; 0: the time of day is not known.
  std::string begin(const policy_set& policies, const pipeline_state& state,
                    std::int64_t unix_offset_ms = 0);
  // `d` is what evaluate() made of the snapshot.
  std::string tick(const policy_set& policies, const snapshot& now, const decision& d);

 private:
  std::string revision_;
  std::map<std::string, std::string, std::less<>> last_;  // section and its text
};

// A tick whose decisions are not those that were recorded. Empty: nothing was decided.
struct difference {
  std::size_t line = 0;
  std::uint64_t sequence = 0;
  std::int64_t time_ms = 0;
  std::int64_t unix_ms = 0;  // 0: not known
  std::string recorded;      // as plan_json
  std::string replayed;      // as plan_json
  std::string was;           // the recorded moves in sentences
  std::string text;          // the replayed decisions in sentences
};

// What is wrong with a trace. Line 0: it cannot be read at all.
struct trace_fault {
  std::size_t line = 0;
  std::string message;
  bool cut = false;       // it ends in the middle of its last line, as when the daemon was killed
  bool no_trace = false;  // nothing of it could be replayed: it is none, or of a later version
};

// Ticks that could not be replayed, since the first one of their recording is missing: what a line
// leaves out is as in the line before.
struct unknown_ticks {
  std::uint64_t ticks = 0;
  std::size_t line = 0;        // of the first
  std::uint64_t sequence = 0;  // of the first
};

struct replay_report {
  std::uint64_t ticks = 0;
  std::uint64_t decisions = 0;    // ticks in which something was decided, as recorded
  std::uint64_t differences = 0;  // in all; of the first there are details
  std::uint64_t moves_recorded = 0, moves_replayed = 0;
  bool with_others = false;  // policies other than its own
  bool begins_anew = false;  // the file before it ended elsewhere than where this begins
  unknown_ticks unknown;
  std::vector<difference> first;
  std::optional<trace_fault> fault;  // where it ends early; what came before was replayed
};

// Called after each replayed tick with what was seen, decided, and the state before it.
using tick_observer = std::function<void(const policy_set&, const snapshot&,
                                         const pipeline_state& before, const decision&)>;

// No line of a trace is longer; what is, is not read.
inline constexpr std::size_t longest_line = 64U << 20;

// Replays traces, with their own policies or with `others`. Moves that others plan are taken for
// done a tick later, and those of the recording are then undone, as far as parts go. Of files that
// follow each other, as the recorder writes them, others go on in the next from where they have put
// things in the one before.
class replayer {
 public:
  explicit replayer(policy_set_ptr others = nullptr, tick_observer seen = {});
  ~replayer();
  replayer(const replayer&) = delete;
  replayer& operator=(const replayer&) = delete;

  replay_report next(std::istream& in);

 private:
  class course;
  std::unique_ptr<course> course_;
};

// Of one trace.
replay_report replay(std::istream& in, policy_set_ptr others = nullptr,
                     const tick_observer& seen = {});

// "3600 ticks, 12 with decisions: all the same.", or each difference in sentences.
std::string report_text(const replay_report& r);
std::string report_json(const replay_report& r);

// ---- State over restarts

// The state as one text, with the clock it is on. Sessions and moves end with the daemon and are
// left out.
std::string state_text(const pipeline_state& state, std::int64_t now_ms);
// Back on another clock: `passed_ms` after it was written, at `now_ms`. The error says what is
// wrong.
tl::expected<pipeline_state, std::string> state_from_text(std::string_view text,
                                                          std::int64_t now_ms,
                                                          std::int64_t passed_ms);

}  // namespace terrane::policies::trace
