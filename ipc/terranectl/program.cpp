#include "ipc/terranectl/program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include <CLI/CLI.hpp>

#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/option_values.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

// The command line of terranectl. Each command leaves what to do in `chosen`.
constexpr double longest_yield_s = 365.0 * 24 * 3600;

class command_line {
 public:
  command_line(std::string default_socket, const std::vector<further_command>& further)
      : socket_(std::move(default_socket)) {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.add_option("--socket", socket_,
                    "The daemon's control socket (default: TERRANE_SOCKET, or "
                    "/run/terrane/control.sock)")
        ->type_name("PATH");
    app_.add_flag("--json", json_, "Print the daemon's replies as JSON, one object a line");
    app_.set_version_flag("--version", "terranectl " TERRANE_VERSION, "Print the version and exit");
    app_.footer("Exit codes: 0 done, 1 refused or failed, 2 wrong command line, 3 no daemon.");
    add_show();
    add_talk();
    add_steer();
    add_tune();
    add_decide();
    for (const further_command& one : further) {
      add(one);
    }
  }

  int run(std::vector<std::string> arguments, const surroundings& around) {
    if (const auto unknown = unknown_command(arguments)) {
      around.err << "terranectl: there is no command " << printable(*unknown)
                 << "; terranectl --help lists them\n";
      return exit_usage;
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& wrong) {
      return app_.exit(wrong, around.out, around.err) == 0 ? exit_done : exit_usage;
    }
    return chosen_(context(around, socket_, json_));
  }

 private:
  CLI::App* command(CLI::App& under, const std::string& name, const std::string& what,
                    command_action does) {
    CLI::App* added = under.add_subcommand(name, what);
    added->fallthrough();
    built_in_[added] = does;
    added->callback([this, does = std::move(does)] { chosen_ = does; });
    return added;
  }
  CLI::App* command(const char* name, const char* what, command_action does) {
    return command(app_, name, what, std::move(does));
  }

  void add(const further_command& one) {
    CLI::App& under = one.under.empty() ? app_ : *app_.get_subcommand(one.under);
    if (!one.instead_with.empty()) {
      CLI::App* there = under.get_subcommand(one.name);
      there->callback([this, there, option = one.instead_with, does = one.prepare(*there)] {
        chosen_ = there->count(option) > 0 ? does : built_in_[there];
      });
      return;
    }
    CLI::App* added = command(under, one.name, one.says, nullptr);
    added->callback([this, does = one.prepare(*added)] { chosen_ = does; });
  }

  // The word in the place of the command, if it is none.
  std::optional<std::string> unknown_command(const std::vector<std::string>& arguments) const {
    for (auto word = arguments.begin(); word != arguments.end(); ++word) {
      if (*word == "--socket" && word + 1 != arguments.end()) {
        ++word;
      } else if (!word->starts_with('-')) {
        const auto named =
            app_.get_subcommands([&](const CLI::App* one) { return one->get_name() == *word; });
        return named.empty() ? std::optional(*word) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  void add_show() {
    command("status", "What runs, in one look", show_status);
    command("devices", "The devices, and who holds how many bytes on each", show_devices);
    auto* placement = command("placement", "Where every part of the model is, and why",
                              [this](const context& with) { return show_placement(with, words_); });
    placement->add_option("PART", words_, "Only these: layer.0-11, layer.*.attn, head");
    command("telemetry", "The readings that policies see", show_telemetry);
    command(
        "snapshot",
        "The newest snapshot with its policies, as a recording of one moment: write it to a file",
        print_snapshot);
    command("sessions", "Your sessions (all of them for an administrator)", show_sessions);
    auto* events = command("monitor", "Events as they happen",
                           [this](const context& with) { return monitor(with, count_); });
    events->add_option("--count", count_, "Leave after so many events")
        ->transform(whole_number("N", 1));
  }

  void add_talk_options(CLI::App* to) {
    sampling_settings& sampling = talk_.sampling;
    to->add_option("--system", talk_.system, "The system message");
    to->add_option("--max-tokens", talk_.max_tokens, "The longest reply")
        ->transform(whole_number("N", 1));
    to->add_option("--temperature", sampling.temperature, "0 always takes the likeliest token")
        ->transform(real_number("X"));
    to->add_option("--top-k", sampling.top_k, "Choose among so many tokens; 0 is all")
        ->transform(whole_number("N", 0));
    to->add_option("--top-p", sampling.top_p, "Choose among tokens of this probability together")
        ->transform(real_number("X"));
    to->add_option("--min-p", sampling.min_p, "Leave out tokens this much less likely")
        ->transform(real_number("X"));
    to->add_option("--repetition-penalty", sampling.repetition_penalty, "1 is none")
        ->transform(real_number("X"));
    to->add_option("--repetition-window", sampling.repetition_window, "Over so many last tokens")
        ->transform(whole_number("N", 0));
    to->add_option("--seed", sampling.seed, "The same seed gives the same reply")
        ->transform(whole_number("N"));
    to->add_option("--stop", talk_.stop, "End the reply before this text; may be given again")
        ->allow_extra_args(false);
    to->add_flag("--stats", talk_.statistics, "Print counts and times after a reply");
  }

  void add_talk() {
    add_talk_options(command("chat", "Talk with the model; also reads lines from a pipe",
                             [this](const context& with) { return chat(with, talk_); }));
    auto* once = command("generate", "One reply to one prompt",
                         [this](const context& with) { return generate(with, text_, talk_); });
    once->add_option("PROMPT", text_, "The text to continue (default: read from the input)");
    once->add_flag("--chat", talk_.as_chat, "Answer the prompt as a message instead");
    add_talk_options(once);
    auto* stop = command("stop", "Stop the reply of a session",
                         [this](const context& with) { return stop_reply(with, number_); });
    stop->add_option("SESSION", number_, "The session's number, as sessions gives it")
        ->required()
        ->transform(whole_number("N", 1));
    auto* close = command("close", "End a session; its KV pages return",
                          [this](const context& with) { return close_session(with, number_); });
    close->add_option("SESSION", number_, "The session's number, as sessions gives it")
        ->required()
        ->transform(whole_number("N", 1));
  }

  void add_steer() {
    auto* move = command("move", "Move parts of the model to a device: move PART... DEVICE",
                         [this](const context& with) {
                           if (words_.size() < 2) {
                             return with.fail(
                                 "move takes parts and then a device, such as: terranectl move "
                                 "layer.0-11 vulkan",
                                 exit_usage);
                           }
                           const std::string device = words_.back();
                           words_.pop_back();
                           return move_parts(with, words_, device, revision_);
                         });
    move->add_option(
            "PART", words_,
            "Parts (layer.0-11, layer.*.attn, head, all), then the device (the beginning of "
            "its name will do)")
        ->required();
    auto* cancel = command("cancel", "Give up a move that is being prepared",
                           [this](const context& with) { return cancel_move(with, number_); });
    cancel->add_option("MOVE", number_, "The move's number, as move and monitor give it")
        ->required()
        ->transform(whole_number("N", 1));
    auto* spill =
        command("spill", "Send older KV pages of a session away", [this](const context& with) {
          return spill_kv(with, {number_, device_, keep_, revision_});
        });
    spill->add_option("SESSION", number_, "The session's number, as sessions gives it")
        ->required()
        ->transform(whole_number("N", 1));
    spill->add_option("--to", device_, "The device (default: the host)");
    spill->add_option("--keep", keep_, "Keep the newest so many tokens where they are")
        ->transform(whole_number("N", 0));
    auto* fetch = command("fetch", "Bring KV pages of a session back", [this](const context& with) {
      return fetch_kv(with, {number_, revision_});
    });
    fetch->add_option("SESSION", number_, "The session's number, as sessions gives it")
        ->required()
        ->transform(whole_number("N", 1));
    for (CLI::App* one : {move, spill, fetch}) {
      one->add_option("--revision", revision_, "Only if the placement has this revision")
          ->transform(whole_number("N", 0));
    }
  }

  void add_tune() {
    auto* timing = command(
        "tune",
        "Time the layouts of kernels on a device again (default: on all) and "
        "show what is used",
        [this](const context& with) { return only_show_ ? show_tuning(with) : tune(with, text_); });
    timing->add_option("DEVICE", text_, "The beginning of its name will do");
    timing->add_flag("--show", only_show_, "Time nothing");
  }

  void add_decide() {
    CLI::App* policy = app_.add_subcommand("policy", "The placement policies");
    policy->require_subcommand(1);
    policy->fallthrough();
    command(*policy, "ls", "The policies in force and what each is doing", list_policies);
    command(*policy, "reload", "Read the policy files again", reload_policies);
    auto* on = command(*policy, "enable", "Switch a policy on again",
                       [this](const context& with) { return switch_policy(with, text_, true); });
    on->add_option("NAME", text_, "As policy ls calls it")->required();
    auto* off = command(*policy, "disable", "Switch a policy off; what it has moved stays",
                        [this](const context& with) { return switch_policy(with, text_, false); });
    off->add_option("NAME", text_, "As policy ls calls it")->required();

    auto* give = command("yield", "Give a device's memory back to other programs, for a while",
                         [this](const context& with) {
                           return end_ ? end_yield(with, device_) : yield(with, device_, for_s_);
                         });
    give->add_option("DEVICE", device_, "The device (default: the one that holds parts)");
    give->add_option("--for", for_s_, "So long, such as 90s, 30m, 2h or 1d; then all returns")
        ->transform(CLI::AsNumberWithUnit(
            std::map<std::string, double>{
                {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}},
            CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
        ->check([](const std::string& seconds) {
          const double s = std::strtod(seconds.c_str(), nullptr);
          return s >= 1 && s <= longest_yield_s
                     ? std::string()
                     : std::string("takes a time from 1s to a year, such as 90s, 30m, 2h or 1d");
        });
    give->add_flag("--end", end_, "It may be used again: what left goes home");

    auto* dry = command("plan", "What the policies would do now; never acts",
                        [this](const context& with) { return plan(with, assume_, text_); });
    dry->add_option("--assume", assume_,
                    "As if a reading were so: OBJECT/METRIC=VALUE; may be given again")
        ->allow_extra_args(false);
    dry->add_option("--file", text_, "Try this policy file instead of those in force");
    auto* explanation = command("explain", "What was seen, considered and done in a decision",
                                [this](const context& with) { return explain(with, number_); });
    explanation
        ->add_option("ID", number_, "The decision's number, as monitor, why and status give it")
        ->required()
        ->transform(whole_number("N", 1));
    auto* reason = command("why", "Why a part is where it is",
                           [this](const context& with) { return why(with, text_); });
    reason->add_option("PART", text_, "The part, such as layer.3.ffn")->required();
  }

  CLI::App app_{"Query and steer terraned, the Terrane daemon.", "terranectl"};
  command_action chosen_;
  std::map<CLI::App*, command_action> built_in_;
  std::string socket_;
  bool json_ = false;
  bool only_show_ = false;
  std::vector<std::string> words_;
  std::vector<std::string> assume_;
  std::string text_;
  std::int64_t number_ = 0;
  std::optional<std::int64_t> count_;
  std::optional<std::int64_t> revision_;
  std::optional<std::int64_t> keep_;
  std::optional<std::string> device_;
  std::optional<double> for_s_;
  bool end_ = false;
  talk_options talk_;
};

}  // namespace

namespace {

// What could not be written was not done, whichever command it was: a full disk must not look like
// a reply.
int all_written(const surroundings& around, int code) {
  const bool was_whole = around.out.good();
  // What failed long ago has forgotten why: the end of the line says it again.
  if (!was_whole) {
    around.out.clear();
    around.out << "\n";
  }
  errno = 0;
  around.out.flush();
  if (was_whole && around.out.good()) return code;
  around.err << "terranectl: the output could not be written whole"
             << (errno != 0 ? std::string(": ") + std::strerror(errno) : "") << "\n";
  return code == exit_done ? exit_failed : code;
}

}  // namespace

int run(std::vector<std::string> arguments, const surroundings& around,
        const std::vector<further_command>& further) {
  return all_written(around,
                     command_line(around.socket, further).run(std::move(arguments), around));
}

}  // namespace terrane::ipc::ctl
