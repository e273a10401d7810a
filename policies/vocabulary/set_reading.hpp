// Readings by name, as a person, a client or a scenario gives them: for the readings file, for dry
// runs and for tests. Which field of a snapshot a metric's name stands for is the table's to say;
// for a metric that is computed of two, the field that changes is set. Pure; any thread.
#pragma once

#include <functional>
#include <string>

#include "policies/vocabulary/snapshot.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// Puts the reading (in the metric's unit) into the snapshot. `object` is "host", a device's name or
// its kind for the first of that kind, or a session's id. Returns what is wrong, or nothing.
std::string set_reading(snapshot& s, const std::string& object, const metric_entry& metric,
                        const reading& value);
// The same for a device or the host at hand; false when the metric cannot be given.
bool set_reading(device_state& device, metric_id metric, const reading& value);
bool set_reading(host_state& host, metric_id metric, const reading& value);

// Calls f for every reading of host and devices, absent ones included.
void for_each_reading(snapshot& s, const std::function<void(reading&)>& f);

}  // namespace terrane::policies
