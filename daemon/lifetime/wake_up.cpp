#include "daemon/lifetime/wake_up.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace terrane::daemon {

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, s);
  return set;
}

}  // namespace

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void block_signals() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

wake_up wait_for_wake_up(std::int64_t until_ms) {
  const sigset_t signals = watched_signals();
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(0, until_ms - steady_ms());
    const timespec timeout{left / 1000, left % 1000 * 1'000'000};
    switch (sigtimedwait(&signals, nullptr, &timeout)) {
      case SIGTERM:
      case SIGINT:
        return wake_up::stop;
      case SIGHUP:
        return wake_up::reload;
      case SIGUSR1:
        return wake_up::called;
      default:  // the time has come, or a signal that is none of ours came between
        if (steady_ms() >= until_ms) return wake_up::time;
    }
  }
}

// A signal to the process that every thread blocks waits for the one that asks for it.
void call_main() { kill(getpid(), SIGUSR1); }

}  // namespace terrane::daemon
