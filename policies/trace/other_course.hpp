// What the machine of a recording would have looked like had other policies moved its parts: from
// the first decision that is another one, moves of the recording's policies are taken back and
// those of the others are taken for done a tick later. Moves that both made before, or that a
// person asked for, stay. Sessions' KV stays where the recording has it. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::trace {

class other_course {
 public:
  bool begun() const { return begun_; }
  // From the snapshot on which something else was decided. Moves numbered from `first_move` on are
  // not common to both.
  void begin(const snapshot& at, std::uint64_t first_move);
  // The recorded snapshot as it would have been.
  snapshot seen(snapshot recorded);
  // What the others do on what they saw last.
  void plan(const plan& others) { planned_ = others.moves; }

 private:
  struct place {
    std::string device;
    std::int64_t moved_ms = reading::never;
  };

  bool is_common(std::uint64_t move) const { return move < first_move_; }  // 0: a person's

  bool begun_ = false;
  std::uint64_t first_move_ = 0;
  std::map<std::string, place> places_;
  std::vector<planned_move> planned_;
};

}  // namespace terrane::policies::trace
