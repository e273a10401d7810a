// terranectl as a function: the command line in, the exit code out. One thread.
#pragma once

#include <string>
#include <vector>

#include "ipc/terranectl/surroundings.hpp"

namespace terrane::ipc::ctl {

// `arguments` without the program's name. Exit codes: 0 done, 1 refused or failed, 2 wrong command
// line, 3 no daemon.
int run(std::vector<std::string> arguments, const surroundings& around);

}  // namespace terrane::ipc::ctl
