// The control server: io.terrane.Control on a Unix socket, in front of the daemon's
// control_service. It owns one thread, on which it reads calls, checks them (interface, level of
// access, the values the interface cannot express) and calls the service. The service and the event
// hub belong to the daemon and outlive the server. `start` and `stop` are called from one thread,
// the daemon's main.
#pragma once

#include <memory>
#include <string>

#include "ipc/control/event_hub.hpp"
#include "ipc/control/service.hpp"
#include "ipc/result.hpp"
#include "ipc/varlink/limits.hpp"
#include "ipc/varlink/listen_socket.hpp"
#include "ipc/varlink/peer.hpp"

namespace terrane::ipc {

// How a peer's level is decided. The groups are looked up by name when the server starts; one that
// the system does not have gives nobody its level. Root and the daemon's own user are admin.
struct access_groups {
  std::string operate = "terrane";
  std::string admin = "terrane-admin";
};

struct control_server_options {
  std::string version;  // of the daemon, for org.varlink.service.GetInfo
  access_groups groups;
  varlink::limits limits;
};

class control_server {
 public:
  control_server(control_service& service, event_hub& events,
                 const control_server_options& options);
  ~control_server();  // stops
  control_server(const control_server&) = delete;
  control_server& operator=(const control_server&) = delete;

  // Serves on the socket from now on (listen_socket::at_path or ::from_descriptor).
  result<void> start(varlink::listen_socket socket);

  // Takes no new calls, cancels the running ones with ShuttingDown, waits a moment for what is
  // still to be written, closes, and removes the socket's path if the server made it. May be called
  // twice.
  void stop();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace terrane::ipc
