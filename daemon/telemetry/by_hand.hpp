// Readings by name, as a person or a client gives them: for the readings file and for dry runs. The
// one place that knows which field of a snapshot a metric's name stands for. Pure; any thread.
#pragma once

#include <functional>
#include <string>

#include "policies/vocabulary/snapshot.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

// Puts the reading (in the metric's unit) into the snapshot. `object` is "host", a device's name or
// its kind for the first of that kind, or a session's id. Returns what is wrong, or nothing.
std::string set_reading(policies::snapshot& s, const std::string& object,
                        const policies::metric_entry& metric, const policies::reading& value);

// Calls f for every reading of host and devices, absent ones included.
void for_each_reading(policies::snapshot& s, const std::function<void(policies::reading&)>& f);

}  // namespace terrane::daemon
