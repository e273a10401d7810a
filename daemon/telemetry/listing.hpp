// All readings of host and devices as a list for people or programs: each with its source and age,
// and below them what is wrong with a source. Pure; any thread.
#pragma once

#include <string>

#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

std::string readings_text(const policies::snapshot& s, const telemetry_sources& sources);
// {readings: [{object, metric, value, text, source, age_ms, stale}], troubles: [{source, what}]},
// values in the unit of the metric (policies/vocabulary/metrics.cpp).
std::string readings_json(const policies::snapshot& s, const telemetry_sources& sources);

}  // namespace terrane::daemon
