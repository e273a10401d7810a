// terranectl policy replay: recordings of the daemon again, by their own policies or by others.
#include <filesystem>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json/parse.hpp>

#include "daemon/terranectl/commands.hpp"
#include "daemon/terranectl/recording.hpp"
#include "ipc/terranectl/words.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::daemon::ctl {
namespace {

namespace fs = std::filesystem;

using ipc::ctl::context;
using policies::trace::replay_report;

struct replay_options {
  std::vector<std::string> traces;
  std::vector<std::string> policies;
};

void tell(const context& with, const fs::path& file, const replay_report& r) {
  if (with.json()) {
    boost::json::object out = boost::json::parse(report_json(r)).as_object();
    out["file"] = file.string();
    return with.print_json(out);
  }
  with.out() << ipc::ctl::printable(file.string() + ": " + report_text(r));
}

// Whether all of it was read and nothing is different. What a killed daemon left of its last line
// is no fault.
bool is_same(const replay_report& r) {
  return r.differences == 0 && r.unknown.ticks == 0 && (!r.fault || r.fault->cut);
}

// Whether what it holds can be compared at all.
bool was_tried(const replay_report& r) { return r.ticks > 0 || r.unknown.ticks == 0; }

// A file that is there and no folder.
bool opens(const fs::path& file, std::ifstream& in) {
  std::error_code fault;
  in.open(file, std::ios::binary);
  return in.is_open() && !fs::is_directory(file, fault);
}

int replay(const context& with, const replay_options& options) {
  policies::policy_set_ptr others;
  if (!options.policies.empty()) {
    auto set = policies::policy_set::load({options.policies.begin(), options.policies.end()});
    if (!set) {
      for (const policies::diagnostic& d : set.error())
        with.err() << ipc::ctl::printable(to_string(d)) << "\n";
      return ipc::ctl::exit_usage;
    }
    others = *set;
  }
  std::vector<fs::path> files;
  for (const std::string& path : options.traces) {
    const std::vector<fs::path> found = recordings_of(path);
    if (found.empty())
      return with.fail(path + " holds no recordings (*.jsonl)", ipc::ctl::exit_usage);
    files.insert(files.end(), found.begin(), found.end());
  }
  int code = ipc::ctl::exit_done;
  std::uint64_t ticks = 0;
  // One for all: with other policies a file goes on from where the one before it led to.
  policies::trace::replayer replayer(others);
  for (const fs::path& file : files) {
    std::ifstream in;
    if (!opens(file, in)) {
      code = with.fail("cannot read " + file.string(), ipc::ctl::exit_usage);
      continue;  // what is wrong with one says nothing of the others
    }
    const replay_report r = replayer.next(in);
    if (r.fault && r.fault->no_trace) {
      code = with.fail(file.string() + ": " + r.fault->message, ipc::ctl::exit_usage);
      continue;
    }
    tell(with, file, r);
    ticks += r.ticks;
    if (!was_tried(r)) {
      code = ipc::ctl::exit_usage;
    } else if (!is_same(r) && code == ipc::ctl::exit_done) {
      code = ipc::ctl::exit_failed;
    }
  }
  if (ticks == 0 && code == ipc::ctl::exit_done)
    return with.fail("nothing has been recorded yet: no tick is in what was given",
                     ipc::ctl::exit_usage);
  return code;
}

}  // namespace

ipc::ctl::further_command policy_replay() {
  return {
      "policy", "replay", "Decide again what was recorded; asks no daemon",
      [](CLI::App& parser) -> ipc::ctl::command_action {
        const auto options = std::make_shared<replay_options>();
        parser
            .add_option("TRACE", options->traces,
                        "Recordings, or the folder that 'record' of the configuration names")
            ->required();
        parser
            .add_option("--policies", options->policies,
                        "Files, or folders of them: what would these have done instead?")
            ->allow_extra_args(false);
        parser.footer(
            "Of several files each goes on from the one before, where it follows it. Exit codes: 0 "
            "the same decisions, bit for bit (with --policies: the same moves), 1 others, or a "
            "damaged file, 2 one could not be tried, or is no recording; the others are.");
        return [options](const context& with) { return replay(with, *options); };
      }};
}

}  // namespace terrane::daemon::ctl
