// Readings from a file, for demonstrations and tests: a map of objects to metrics, which override
// what the other sources measured.
//
//   vulkan: {vram.used_ratio: 96%}       a device's name, or its kind for the first of that kind
//   cpu: {temp_c: 91C}
//   host: {host.memory_available: 1GiB}
//
// The file is read again each period. One that cannot be understood is trouble, and the
// readings it gave before grow stale.
#include <fstream>
#include <iterator>

#include "daemon/telemetry/source.hpp"
#include "policies/vocabulary/metric_value.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "policies/yaml/document.hpp"

namespace terrane::daemon {

namespace {

namespace yaml = policies::yaml;

class file_source final : public telemetry_source {
 public:
  file_source(std::filesystem::path file, std::int32_t period_ms)
      : file_(std::move(file)), period_ms_(period_ms) {}
  std::string_view name() const override { return "readings file"; }
  std::string trouble() const override { return trouble_; }

  void sample(policies::snapshot& s) override {
    if (read()) read_ms_ = s.time_ms;
    for (const auto& [object, metrics] : root_.entries)
      for (const auto& [metric, value] : metrics.entries) apply(s, object.text, metric, value);
  }

 private:
  // True if the file says something that is understood, now.
  bool read() {
    std::ifstream in(file_, std::ios::binary);
    if (!in) {  // no file: no readings by hand
      root_ = {};
      trouble_.clear();
      return true;
    }
    const std::string text(std::istreambuf_iterator<char>(in), {});
    policies::result<yaml::node> parsed = yaml::parse_document(file_.string(), text);
    if (!parsed) {
      trouble_ = policies::to_string(parsed.error());
      return false;
    }
    trouble_.clear();
    root_ = std::move(*parsed);
    return true;
  }

  void apply(policies::snapshot& s, const std::string& object, const yaml::node& metric,
             const yaml::node& value) {
    const policies::metric_entry* entry = policies::find_metric(metric.text);
    if (entry == nullptr)
      return complain(metric, "there is no metric '" + metric.text + "'" +
                                  policies::name_hint(metric.text, policies::metric_names()));
    policies::parsed<double> number = policies::parse_value(value.text, *entry);
    if (!number) return complain(value, number.error());
    const std::string fault =
        policies::set_reading(s, object, *entry, {*number, read_ms_, period_ms_});
    if (!fault.empty()) complain(metric, fault);
  }

  void complain(const yaml::node& at, const std::string& what) {
    trouble_ =
        policies::to_string(policies::diagnostic{policies::severity::warning, at.where, what});
  }

  std::filesystem::path file_;
  std::int32_t period_ms_;
  std::int64_t read_ms_ = policies::reading::never;
  yaml::node root_;
  std::string trouble_;
};

}  // namespace

std::unique_ptr<telemetry_source> make_file_source(std::filesystem::path file,
                                                   std::int32_t period_ms) {
  return std::make_unique<file_source>(std::move(file), period_ms);
}

}  // namespace terrane::daemon
