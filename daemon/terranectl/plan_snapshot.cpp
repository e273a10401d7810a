// terranectl plan --snapshot: a dry run on a recorded snapshot.
#include <memory>

#include <CLI/CLI.hpp>

#include "daemon/service/policy_words.hpp"
#include "daemon/terranectl/commands.hpp"
#include "daemon/terranectl/recording.hpp"
#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/option_values.hpp"
#include "ipc/terranectl/words.hpp"
#include "policies/pipeline/what_if.hpp"

namespace terrane::daemon::ctl {
namespace {

using ipc::ctl::context;

struct plan_options {
  std::string snapshot;
  std::optional<std::uint64_t> at;
};

int plan(const context& with, const plan_options& options,
         const std::vector<std::string>& assumptions, const std::string& file) {
  int code = ipc::ctl::exit_done;
  auto moment = read_moment(with, options.snapshot, options.at, code);
  if (!moment) return code;
  policies::policy_set_ptr set = moment->policies;
  if (!file.empty()) {
    auto tried = policies::policy_set::load({file});
    if (!tried) {
      for (const policies::diagnostic& d : tried.error())
        with.err() << ipc::ctl::printable(to_string(d)) << "\n";
      return ipc::ctl::exit_failed;
    }
    set = *tried;
  }
  for (const std::string& text : assumptions) {
    const auto parsed = ipc::ctl::parse_assumption(text);
    if (!parsed) return ipc::ctl::refuse_assumption(with, text);
    const std::string fault =
        policies::assume(moment->seen, {parsed->metric, parsed->object, parsed->value});
    if (!fault.empty()) return with.fail(text + ": " + fault);
  }
  const policies::decision d = policies::evaluate_as_if_held(*set, moment->seen, moment->before);
  if (with.json()) {
    ipc::plan_reply reply;
    for (const policies::decision_record& r : d.records) reply.decisions.push_back(to_protocol(r));
    with.print_json(ipc::to_json(reply));
    return code;
  }
  if (d.records.empty()) with.out() << "Nothing would be done.\n";
  for (const policies::decision_record& r : d.records)
    with.out() << ipc::ctl::printable(to_protocol(r).text);
  return code;
}

}  // namespace

ipc::ctl::further_command plan_snapshot() {
  ipc::ctl::further_command added;
  added.name = "plan";
  added.instead_with = "--snapshot";
  added.prepare = [](CLI::App& parser) -> ipc::ctl::command_action {
    const auto options = std::make_shared<plan_options>();
    parser.add_option(
        "--snapshot", options->snapshot,
        "On the last snapshot of this recording, or folder of them, with its policies; asks no "
        "daemon (terranectl snapshot writes one)");
    parser.add_option("--at", options->at, "On the recording's snapshot of this number")
        ->needs("--snapshot")
        ->transform(ipc::ctl::whole_number("N", 0));
    return [options, &parser](const context& with) {
      const std::vector<std::string> files = parser.get_option("--file")->results();
      return plan(with, *options, parser.get_option("--assume")->results(),
                  files.empty() ? "" : files.front());
    };
  };
  return added;
}

}  // namespace terrane::daemon::ctl
