// terranectl policy test: runs authors' tests of policies, a trace and the expected plan in YAML.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "daemon/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"
#include "policies/scenario/run.hpp"

namespace terrane::daemon::ctl {
namespace {

using ipc::ctl::context;
using policies::scenario::report;

// Exit status of `policy test`.
constexpr int all_passed = 0, some_failed = 1, some_did_not_run = 2;

boost::json::object to_json(const report& r) {
  boost::json::array faults, failures;
  for (const policies::diagnostic& d : r.faults) faults.emplace_back(to_string(d));
  for (const policies::scenario::mismatch& m : r.mismatches) {
    failures.push_back({{"where", to_string(m.where)}, {"at_ms", m.at_ms}, {"text", m.text}});
  }
  return {{"file", r.file},   {"scenario", r.title},  {"passed", r.passed()},
          {"faults", faults}, {"failures", failures}, {"lasted_ms", r.lasted_ms},
          {"moves", r.moves}};
}

// The tests that the paths name; those that name none are reports of their own.
std::vector<report> run_all(const std::vector<std::string>& paths) {
  std::vector<report> reports;
  for (const std::string& path : paths) {
    const auto tests = policies::scenario::find_tests(path);
    if (!tests) {
      report none;
      none.file = path;
      none.faults = {tests.error()};
      reports.push_back(std::move(none));
      continue;
    }
    for (const auto& test : *tests) reports.push_back(policies::scenario::run_file(test));
  }
  return reports;
}

int test(const context& with, const std::vector<std::string>& paths) {
  const std::vector<report> reports = run_all(paths);
  for (const report& r : reports) {
    if (with.json()) {
      with.print_json(to_json(r));
    } else {
      with.out() << ipc::ctl::printable(to_text(r));
    }
  }
  const auto failed =
      std::ranges::count_if(reports, [](const report& r) { return r.ran() && !r.passed(); });
  const auto unable = std::ranges::count_if(reports, [](const report& r) { return !r.ran(); });
  if (!with.json()) {
    with.out() << reports.size() << (reports.size() == 1 ? " test" : " tests") << ": "
               << static_cast<std::ptrdiff_t>(reports.size()) - failed - unable << " passed";
    if (failed > 0) with.out() << ", " << failed << " failed";
    if (unable > 0) with.out() << ", " << unable << " could not run";
    with.out() << "\n";
  }
  return unable > 0 ? some_did_not_run : failed > 0 ? some_failed : all_passed;
}

}  // namespace

ipc::ctl::further_command policy_test() {
  return {
      "policy", "test", "Run tests of policies; asks no daemon",
      [](CLI::App& parser) -> ipc::ctl::command_action {
        const auto paths = std::make_shared<std::vector<std::string>>();
        parser.add_option("PATH", *paths, "Tests, or folders in which every NAME.test.yaml is one")
            ->required();
        parser.footer("Exit codes: 0 all passed, 1 some failed, 2 some could not run.");
        return [paths](const context& with) { return test(with, *paths); };
      }};
}

}  // namespace terrane::daemon::ctl
