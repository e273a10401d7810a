// What terranectl has around it: where it reads and writes, and what kind of place that is. main()
// takes it from the process, tests make their own. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace terrane::ipc::ctl {

struct surroundings {
  std::ostream& out;
  std::ostream& err;
  int input = 0;                   // a descriptor
  bool input_is_terminal = false;  // somebody types: prompts make sense
  bool out_is_terminal = false;    // somebody looks: progress lines make sense
  bool colours = false;
  std::size_t columns = 100;
  std::string socket{};  // when the command line names none
  std::function<std::int64_t()> now_unix_ms{};
};

}  // namespace terrane::ipc::ctl
