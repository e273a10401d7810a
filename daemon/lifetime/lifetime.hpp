// The daemon from start to stop: serves the control socket, loads the model, then looks and decides
// once a period. One call, on the process's first thread, before there is any other.
#pragma once

#include "daemon/config/config.hpp"

namespace terrane::daemon {

// Until SIGTERM or SIGINT. A model that cannot be loaded is no end: the daemon serves on and says
// what is wrong, and SIGHUP makes it try again. Returns the process's exit status: 0, or 1 when the
// policies have faults or the socket cannot be served.
int live(const config& c);

}  // namespace terrane::daemon
