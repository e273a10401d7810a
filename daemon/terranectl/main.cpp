// terranectl: the client program. Exit status: ipc/README.md.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/terranectl/commands.hpp"

namespace {

// A terminal's width, up to what is still pleasant to read; 100 of one that does not say.
std::size_t columns_of(int terminal) {
  winsize size{};
  if (ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col < 40) {
    return 100;
  }
  return std::min<std::size_t>(size.ws_col, 160);
}

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::int64_t now_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  terrane::ipc::ctl::surroundings around{std::cout, std::cerr};
  around.input = STDIN_FILENO;
  around.input_is_terminal = isatty(STDIN_FILENO) != 0;
  around.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  around.colours = around.out_is_terminal && environment("NO_COLOR", "").empty() &&
                   environment("TERM", "dumb") != "dumb";
  if (around.out_is_terminal) {
    around.columns = columns_of(STDOUT_FILENO);
  }
  around.socket = environment("TERRANE_SOCKET", "/run/terrane/control.sock");
  around.now_unix_ms = now_unix_ms;
  return terrane::ipc::ctl::run({argv + 1, argv + argc}, around,
                                terrane::daemon::ctl::offline_commands());
}
