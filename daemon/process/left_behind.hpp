// Threads that the daemon could not wait for at its end: held up on a disk or in a driver that does
// not answer. As long as there is one, what they use must not be taken down, so the process ends
// without doing so. Any thread.
#pragma once

#include <atomic>

namespace terrane::daemon {

inline std::atomic<int>& threads_left_behind() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace terrane::daemon
