// How long a list that was submitted need not be looked at, from how long its last runs took. A
// plain value; one thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace terrane::engine::cuda {

class run_time {
 public:
  using duration = std::chrono::nanoseconds;

  // From submission on. Zero until two runs were seen to end: one that something held up must not
  // hold up the next.
  duration quiet() const { return std::max(std::min(last_, before_) - early, duration{0}); }
  void ended(duration after) {
    before_ = last_;
    last_ = after;
  }
  // It had ended at the first look after quiet(), nobody knows when: the next ones are watched.
  void ended_unseen() { last_ = before_ = duration{0}; }

 private:
  static constexpr std::chrono::microseconds early{150};
  duration last_{0}, before_{0};
};

}  // namespace terrane::engine::cuda
