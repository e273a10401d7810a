// terranectl policy lint: every fault of policy files, which are taken as one set.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "daemon/terranectl/commands.hpp"
#include "ipc/control/types.hpp"
#include "ipc/terranectl/words.hpp"
#include "policies/pipeline/policy_set.hpp"

namespace terrane::daemon::ctl {
namespace {

using ipc::ctl::context;
using policies::severity;

ipc::diagnostic to_protocol(const policies::diagnostic& d) {
  return {d.where.file, d.where.line, d.where.column,
          d.level == severity::error ? ipc::diagnostic_severity::error
                                     : ipc::diagnostic_severity::warning,
          d.message};
}

int lint(const context& with, const std::vector<std::string>& paths) {
  const std::vector<policies::diagnostic> found = policies::lint({paths.begin(), paths.end()});
  const bool valid = std::ranges::none_of(
      found, [](const policies::diagnostic& d) { return d.level == severity::error; });
  if (with.json()) {
    ipc::policy_lint_reply reply{valid, {}};
    for (const policies::diagnostic& d : found) reply.diagnostics.push_back(to_protocol(d));
    with.print_json(ipc::to_json(reply));
  } else if (found.empty()) {
    with.out() << (paths.size() == 1 ? paths.front() : std::to_string(paths.size()) + " paths")
               << ": no faults\n";
  } else {
    for (const policies::diagnostic& d : found) {
      with.out() << ipc::ctl::printable(to_string(d)) << "\n";
    }
  }
  return valid ? ipc::ctl::exit_done : ipc::ctl::exit_failed;
}

}  // namespace

ipc::ctl::further_command policy_lint() {
  return {"policy", "lint", "Check policy files and folders of them; asks no daemon",
          [](CLI::App& parser) -> ipc::ctl::command_action {
            const auto paths = std::make_shared<std::vector<std::string>>();
            parser.add_option("PATH", *paths, "Files, or folders whose policies are one set")
                ->required();
            return [paths](const context& with) { return lint(with, *paths); };
          }};
}

}  // namespace terrane::daemon::ctl
