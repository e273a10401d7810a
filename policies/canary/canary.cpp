#include "policies/canary/canary.hpp"

#include <algorithm>
#include <system_error>
#include <tuple>

#include "policies/explain/sentences.hpp"
#include "policies/pipeline/what_if.hpp"
#include "policies/scenario/run.hpp"

namespace terrane::policies::canary {
namespace {

namespace fs = std::filesystem;

bool is_test(const fs::path& p) { return p.filename().string().ends_with(test_ending); }

// Each test once, in the order of their names within a path.
std::vector<fs::path> tests_beside(const std::vector<fs::path>& paths) {
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& test) {
    if (std::ranges::find(found, test) == found.end()) found.push_back(test);
  };
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      const fs::path test = path.parent_path() / (path.stem().string() + std::string(test_ending));
      if (fs::exists(test, ignored)) add(test);
      continue;
    }
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(path, ignored), end; !ignored && at != end;
         at.increment(ignored)) {
      if (is_test(at->path())) inside.push_back(at->path());
    }
    std::ranges::sort(inside);
    for (const fs::path& test : inside) add(test);
  }
  return found;
}

bool contains(const std::vector<planned_move>& moves, const planned_move& m) {
  const auto essence = [](const planned_move& one) {
    return std::tie(one.action, one.kind, one.subject, one.to, one.keep_tokens);
  };
  return std::ranges::any_of(moves,
                             [&](const planned_move& one) { return essence(one) == essence(m); });
}

void tell(const std::vector<planned_move>& moves, const std::vector<planned_move>& others,
          const std::string& lead, std::vector<std::string>& to) {
  std::vector<planned_move> only;
  for (const planned_move& m : moves) {
    if (!contains(others, m)) only.push_back(m);
  }
  std::string lines = move_lines(only, lead);
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    to.push_back(lines.substr(0, end));
    lines.erase(0, end + 1);
  }
}

}  // namespace

test_report run_tests(const std::vector<fs::path>& paths, const std::function<bool()>& goes_on) {
  test_report out;
  for (const fs::path& test : tests_beside(paths)) {
    if (!goes_on()) {
      out.faults.push_back(
          {severity::error, {test.string()}, "the tests took too long to come to this one"});
      break;
    }
    scenario::report r = scenario::run_file(test);
    if (r.passed()) ++out.passed;
    std::ranges::move(r.faults, std::back_inserter(out.faults));
    for (const scenario::mismatch& m : r.mismatches) {
      out.faults.push_back({severity::error, m.where, "test '" + r.title + "': " + m.text});
    }
  }
  return out;
}

std::vector<std::string> differences(const policy_set& old, const policy_set& next,
                                     const snapshot& now, const pipeline_state& state) {
  pipeline_state for_old = state, for_next = state;
  const decision before = evaluate_as_if_held(old, now, for_old);
  const decision after = evaluate_as_if_held(next, now, for_next);
  std::vector<std::string> out;
  tell(after.planned.moves, before.planned.moves, "if all stays as it is, these now ", out);
  tell(before.planned.moves, after.planned.moves, "if all stays as it is, these no longer ", out);
  tell(after.planned.shadow, before.planned.shadow, "in shadow mode these would now ", out);
  for (const decision_record& r : after.records) {
    if (r.event == decision_event::faulted) out.push_back(headline(r) + " as it is now");
  }
  return out;
}

}  // namespace terrane::policies::canary
