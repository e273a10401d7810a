// Numbers on a command line, as checks of CLI11's that say in few words what is possible. CLI11's
// own reading takes "010" for eight, cuts what is too large to the largest, and knows nan; these
// take decimal numbers only, and hand on what they read. Pure; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

namespace terrane::ipc::ctl {

// Both are for Option::transform. `type_name` is what the help calls the value.
CLI::Validator whole_number(const std::string& type_name,
                            std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());
CLI::Validator real_number(const std::string& type_name);

}  // namespace terrane::ipc::ctl
