// What terranectl has around it: where it reads and writes, and what kind of place that is. main()
// takes it from the process, tests make their own. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

namespace terrane::ipc::ctl {

// Columns of a place that is no terminal: what reads a file or a pipe wants all of a line.
constexpr std::size_t whole_lines = std::numeric_limits<std::size_t>::max();

struct surroundings {
  std::ostream& out;
  std::ostream& err;
  int input = 0;                   // a descriptor
  bool input_is_terminal = false;  // somebody types: prompts make sense
  bool out_is_terminal = false;    // somebody looks: progress lines make sense
  bool colours = false;
  std::size_t columns = whole_lines;
  std::string socket{};  // when the command line names none
  std::function<std::int64_t()> now_unix_ms{};
};

}  // namespace terrane::ipc::ctl
