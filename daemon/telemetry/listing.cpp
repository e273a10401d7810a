#include "daemon/telemetry/listing.hpp"

#include <cstdio>

#include <boost/json.hpp>

#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

namespace {

// Calls f(object's name, metric, reading) for each that is present.
template <class F>
void for_each_present(const policies::snapshot& s, F f) {
  const auto visit = [&](const policies::object_ref& object, policies::scope scope,
                         const std::string& name) {
    for (const policies::metric_entry& m : policies::metrics()) {
      // What the daemon counts itself is no telemetry.
      if (m.belongs_to != scope) continue;
      const policies::reading r = m.read(object);
      if (r.present() && !r.source.empty()) f(name, m, r);
    }
  };
  visit({&s, nullptr, nullptr, nullptr}, policies::scope::host, "host");
  for (const policies::device_state& d : s.devices)
    visit({&s, &d, nullptr, nullptr}, policies::scope::device, d.name);
}

}  // namespace

std::string readings_text(const policies::snapshot& s, const telemetry_sources& sources) {
  std::string out;
  char line[256];
  const auto add = [&](const char* object, const char* metric, const std::string& value,
                       const std::string& age, const std::string& source) {
    std::snprintf(line, sizeof line, "%-45s %-24s %14s %9s  %s\n", object, metric, value.c_str(),
                  age.c_str(), source.c_str());
    out += line;
  };
  add("OBJECT", "METRIC", "VALUE", "AGE", "SOURCE");
  for_each_present(s, [&](const std::string& object, const policies::metric_entry& m,
                          const policies::reading& r) {
    add(object.c_str(), std::string(m.name).c_str(),
        policies::format_quantity(r.value, m.measured_in),
        std::to_string(s.time_ms - r.sampled_ms) + " ms",
        std::string(r.source) + (r.stale(s.time_ms) ? ", stale" : ""));
  });
  for (const auto& source : sources)
    if (const std::string what = source->trouble(); !what.empty())
      out += "trouble: " + std::string(source->name()) + ": " + what + "\n";
  return out;
}

std::string readings_json(const policies::snapshot& s, const telemetry_sources& sources) {
  boost::json::array readings, troubles;
  for_each_present(s, [&](const std::string& object, const policies::metric_entry& m,
                          const policies::reading& r) {
    readings.push_back({{"object", object},
                        {"metric", m.name},
                        {"value", r.value},
                        {"text", policies::format_quantity(r.value, m.measured_in)},
                        {"source", r.source},
                        {"age_ms", s.time_ms - r.sampled_ms},
                        {"stale", r.stale(s.time_ms)}});
  });
  for (const auto& source : sources)
    if (const std::string what = source->trouble(); !what.empty())
      troubles.push_back({{"source", source->name()}, {"what", what}});
  return boost::json::serialize(
      boost::json::object{{"readings", std::move(readings)}, {"troubles", std::move(troubles)}});
}

}  // namespace terrane::daemon
