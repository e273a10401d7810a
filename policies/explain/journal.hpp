// The memory behind `explain ID` and `why PART`: the last decisions, the last one that moved each
// part, and the last one that considered a part and left it. Bounded. Owned by the daemon; one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policies/pipeline/evaluate.hpp"

namespace terrane::policies {

class journal {
 public:
  explicit journal(std::size_t keep = 256) : keep_(keep) {}

  // Takes over the records of a tick; cheap when there are none.
  void add(const decision& d);

  // Null when it is unknown or was dropped.
  const decision_record* find(std::uint64_t id) const;
  // Newest first.
  std::vector<const decision_record*> recent(std::size_t count) const;
  // The last decision that planned to move this part or session; null when there was none.
  const decision_record* last_move_of(const std::string& subject) const;
  // The last decision that considered it and left it where it is; null when there was none.
  const decision_record* last_refusal_of(const std::string& subject) const;

 private:
  using record_ptr = std::shared_ptr<const decision_record>;

  std::size_t keep_;
  std::deque<record_ptr> records_;
  std::map<std::string, record_ptr> moved_;    // by subject; outlives the record's place above
  std::map<std::string, record_ptr> refused_;  // by subject
};

}  // namespace terrane::policies
