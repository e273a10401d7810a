// The values of a metric at which comparisons hold, as far as a file can tell: for lint, which asks
// whether any are left where several must hold at once. Borders count for nothing: a metric that is
// exactly at a limit is beside it in the next sample. Plain values; any thread.
#pragma once

#include <vector>

#include "policies/rule/rule.hpp"

namespace terrane::policies {

class value_set {
 public:
  // All that the metric can be: no share of a whole is above it, though the draw of power may pass
  // its limit, and nothing that is counted is below zero.
  static value_set possible(metric_id id);
  // Those of the possible ones at which the comparison holds.
  static value_set of(const term& t);

  value_set meet(const value_set& other) const;
  bool empty() const { return pieces_.empty(); }

 private:
  struct piece {
    double from, to;  // both outside
  };

  explicit value_set(std::vector<piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<piece> pieces_;
};

// Whether the metric can have the value.
bool is_possible(metric_id id, double value);

}  // namespace terrane::policies
