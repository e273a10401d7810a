// terranectl diff: what is between two placements, of recordings, of the daemon now, or of what the
// policies would do.
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>
#include <boost/json/parse.hpp>

#include "daemon/terranectl/commands.hpp"
#include "daemon/terranectl/recording.hpp"
#include "ipc/terranectl/words.hpp"
#include "policies/pipeline/what_if.hpp"
#include "policies/placement/difference.hpp"
#include "policies/placement/of_snapshots.hpp"

namespace terrane::daemon::ctl {
namespace {

using ipc::ctl::context;
using policies::trace::moment;

struct diff_options {
  std::vector<std::string> files;
  bool plan = false;
};

// Of the daemon that runs.
std::optional<moment> moment_now(const context& with, int& code) {
  const auto object = with.call("Snapshot", {}, code);
  if (!object) return std::nullopt;
  const auto reply = with.understand<ipc::snapshot_reply>(*object, code);
  if (!reply) return std::nullopt;
  std::istringstream text(reply->trace);
  auto found = policies::trace::moment_of(text);
  if (found) return std::move(*found);
  code = with.fail("the daemon's snapshot cannot be read: " + found.error().why);
  return std::nullopt;
}

int diff(const context& with, const diff_options& options) {
  const std::size_t wanted = options.plan ? 1 : 2;
  if (options.files.size() > wanted || options.files.size() + 1 < wanted)
    return with.fail(
        options.plan ? "with --plan, name one recording at most" : "name one recording, or two",
        ipc::ctl::exit_usage);
  int code = ipc::ctl::exit_done;
  std::vector<moment> ends;
  if (options.files.size() < wanted) {
    auto now = moment_now(with, code);
    if (!now) return code;
    ends.push_back(std::move(*now));
  }
  for (const std::string& file : options.files) {
    auto read = read_moment(with, file, std::nullopt, code);
    if (!read) return code;
    ends.push_back(std::move(*read));
  }
  namespace placement = policies::placement;
  moment& from = ends.front();
  const auto two =
      options.plan
          ? placement::after_plan(
                from.seen,
                policies::evaluate_as_if_held(*from.policies, from.seen, from.before).planned)
          : placement::between(from.seen, ends.back().seen);
  if (!two) return with.fail(two.error());
  const placement::difference d = placement::compare(two->asked, two->from, two->to);
  if (with.json())
    with.print_json(boost::json::parse(placement::to_json(two->asked, d)).as_object());
  else
    with.out() << ipc::ctl::printable(placement::to_text(two->asked, d));
  return code;
}

}  // namespace

ipc::ctl::further_command placement_diff() {
  ipc::ctl::further_command added;
  added.name = "diff";
  added.says = "What is between two placements: of recordings, of now, or of what would be done";
  added.prepare = [](CLI::App& parser) -> ipc::ctl::command_action {
    const auto options = std::make_shared<diff_options>();
    parser.add_option(
        "FILE", options->files,
        "A recording, or a folder of them, whose last snapshot counts: from now to it; "
        "or two, from the first to the second");
    parser.add_flag("--plan", options->plan,
                    "From the recording, or now, to what its policies would do if all stayed so");
    return [options](const context& with) { return diff(with, *options); };
  };
  return added;
}

}  // namespace terrane::daemon::ctl
