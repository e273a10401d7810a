// Feeds arbitrary texts to the two readers of YAML: policies with their lint, and the daemon's
// configuration. A text must be refused by faults that say where and why and can be shown and sent,
// or give policies and settings within the bounds that the rest of the daemon relies on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/config/config.hpp"
#include "engine/gguf/text.hpp"
#include "policies/pipeline/policy_set.hpp"

namespace {

using namespace terrane;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "yaml_fuzz: %s\n", what);
  std::abort();
}

bool is_error(const policies::diagnostic& d) { return d.level == policies::severity::error; }

void check_faults(const std::string& text, const std::vector<policies::diagnostic>& faults) {
  const auto lines =
      1 + std::count(text.begin(), text.end(), '\n') + std::count(text.begin(), text.end(), '\r');
  for (const policies::diagnostic& d : faults) {
    require(!d.message.empty() && !d.where.file.empty(), "a fault does not say what or where");
    require(d.where.line >= 0 && d.where.line <= lines + 1, "a fault on a line that is not there");
    require(engine::gguf::is_utf8(policies::to_string(d)), "a fault is not UTF-8");
  }
}

void check_policies(const std::string& text) {
  const auto set = policies::policy_set::from_sources({{"fuzz.yaml", text}});
  check_faults(text, set ? (*set)->warnings() : set.error());
  if (!set) {
    require(std::any_of(set.error().begin(), set.error().end(), is_error), "refused without error");
    return;
  }
  for (const policies::rule& r : (*set)->rules()) {
    require((*set)->find(r.name) == &r, "a policy cannot be found by its name");
    require(engine::gguf::is_utf8(r.name), "a policy's name is not UTF-8");
    require(r.priority >= 0 && r.priority <= 100, "a priority out of bounds");
    require(r.cooldown_ms >= 0 && r.min_stay_ms >= 0, "a time below zero");
  }
}

void check_config(const std::string& text) {
  const auto read = daemon::parse_config("terraned.yaml", text);
  if (!read) {
    check_faults(text, read.error());
    require(std::any_of(read.error().begin(), read.error().end(), is_error),
            "refused without error");
    return;
  }
  require(read->context_tokens >= 1 && read->context_tokens <= 1U << 24, "context out of bounds");
  require(read->sessions >= 1 && read->sessions <= 1024, "sessions out of bounds");
  const std::uint32_t rows = read->rows;  // 0: nobody said, so the engine chooses
  require(rows == 0 || (rows >= 8 && rows <= 4096 && rows % 8 == 0), "rows out of bounds");
  require(read->period_ms >= 10 && read->period_ms <= 600'000, "period out of bounds");
  require(!read->devices.empty(), "no device");
  require(read->max_tokens >= 1, "max_tokens out of bounds");
  require(engine::validate(read->sampling).has_value(), "sampling that the engine refuses");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_policies(text);
  check_config(text);
  return 0;
}
