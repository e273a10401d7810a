// terranectl as a function, against the fake service.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "ipc/terranectl/program.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc::ctl {

struct terranectl_test : control_test {
  std::ostringstream out;
  std::ostringstream err;
  bool typed = false;
  bool terminal = false;
  std::size_t columns = 100;
  std::vector<further_command> further;

  int run(std::vector<std::string> arguments, const std::string& input = "") {
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    EXPECT_EQ(write(pipes[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    close(pipes[1]);
    const int code = run_reading(std::move(arguments), pipes[0]);
    close(pipes[0]);
    return code;
  }
  int run_reading(std::vector<std::string> arguments, int input) {
    out.str("");
    err.str("");
    surroundings around{out, err};
    around.input = input;
    around.input_is_terminal = typed;
    around.out_is_terminal = terminal;
    around.colours = terminal;
    around.columns = columns;
    around.socket = path;
    around.now_unix_ms = [] { return 1'700'000'090'000; };
    return ctl::run(std::move(arguments), around, further);
  }
};

}  // namespace terrane::ipc::ctl
