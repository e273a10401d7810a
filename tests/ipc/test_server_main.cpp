// usage: ipc_test_server SOCKET. Serves the fake_service until its standard input ends, and says
// "ready" when it listens: a server for tests in other languages.
#include <iostream>

#include "ipc/control/server.hpp"
#include "tests/ipc/fake_service.hpp"

int main(int argc, char** argv) {
  using namespace terrane::ipc;
  if (argc != 2) {
    std::cerr << "usage: ipc_test_server SOCKET\n";
    return 2;
  }
  fake_service service;
  service.pieces = {"Once", " upon", " a time ", "\xC3\xA4\xE2\x82\xAC"};
  service.commit_moves = true;
  event_hub events;
  control_server_options options;
  options.version = "0.1.0";
  control_server server(service, events, options);
  auto socket = varlink::listen_socket::at_path(argv[1]);
  if (!socket) {
    std::cerr << socket.error().message << "\n";
    return 1;
  }
  if (const auto started = server.start(std::move(*socket)); !started) {
    std::cerr << started.error().message << "\n";
    return 1;
  }
  std::cout << "ready" << std::endl;
  // Each line of input becomes an event.
  for (std::string line; std::getline(std::cin, line);) {
    event said;
    said.message = line;
    events.publish(said);
  }
}
