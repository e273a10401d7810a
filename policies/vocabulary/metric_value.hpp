// The values of metrics as policy files, tests and people write them. Pure; any thread.
#pragma once

#include <string_view>

#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// Whether it is a share of what is only a mark, such as a limit that is held on average: it may be
// more than that.
inline bool may_pass_the_whole(const metric_entry& m) {
  return m.measured_in == unit::ratio && m.most.value_or(1) > 1;
}

// As parse_quantity() in the metric's unit; also "105%" where the metric may pass the whole.
parsed<double> parse_value(std::string_view text, const metric_entry& m);

}  // namespace terrane::policies
