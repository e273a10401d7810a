// What the daemon's main thread waits for: signals, a word from another thread of the process, and
// time passing. block_signals() comes first in the process, so that every thread inherits it; then
// wait_for_wake_up() belongs to the main thread, and call_main() to any.
#pragma once

#include <cstdint>

namespace terrane::daemon {

enum class wake_up {
  time,    // the time has come
  stop,    // SIGTERM or SIGINT
  reload,  // SIGHUP
  called,  // call_main(), or SIGUSR1
};

// Milliseconds on a clock that never goes back.
std::int64_t steady_ms();

void block_signals();
wake_up wait_for_wake_up(std::int64_t until_ms);
void call_main();

}  // namespace terrane::daemon
