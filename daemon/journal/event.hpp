// Events for Monitor's subscribers, with the time of day. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "ipc/control/types.hpp"

namespace terrane::daemon {

// Milliseconds since 1970.
inline std::int64_t unix_ms(std::chrono::system_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

inline ipc::event event_now(ipc::event_kind kind, std::string message) {
  ipc::event e;
  e.time_unix_ms = unix_ms(std::chrono::system_clock::now());
  e.kind = kind;
  e.message = std::move(message);
  return e;
}

}  // namespace terrane::daemon
