// terranectl as a function: the command line in, the exit code out. What asks the daemon is built
// in; the program's main adds what needs none (daemon/terranectl/). One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ipc/terranectl/context.hpp"
#include "ipc/terranectl/surroundings.hpp"

namespace CLI {
class App;
}

namespace terrane::ipc::ctl {

// What a command does once the command line is read; returns the program's exit code.
using command_action = std::function<int(const context&)>;

// A command that is not built in, or another way to do what one that is does.
struct further_command {
  std::string under;  // "policy"; empty: a command of its own
  std::string name;
  std::string says;  // one phrase for --help
  // Adds the command's options to its parser and returns the action, which owns what they are read
  // into.
  std::function<command_action(CLI::App& parser)> prepare;
  // An option of its own ("--snapshot") that has it done instead of the built-in command of this
  // name, whose options it shares; empty: there is none of this name.
  std::string instead_with = {};
};

// `arguments` without the program's name. Exit codes: 0 done, 1 refused or failed, 2 wrong command
// line, 3 no daemon.
int run(std::vector<std::string> arguments, const surroundings& around,
        const std::vector<further_command>& further = {});

}  // namespace terrane::ipc::ctl
