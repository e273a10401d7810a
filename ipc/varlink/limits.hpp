// What a server bears from its clients. Plain values; any thread.
#pragma once

#include <chrono>
#include <cstddef>

namespace terrane::ipc::varlink {

struct limits {
  // Of one message, either way, without its NUL. A longer call ends its connection.
  std::size_t message_bytes = 1024 * 1024;
  // Objects and arrays inside each other.
  std::size_t nesting = 32;
  std::size_t connections_per_user = 64;
  std::size_t connections = 512;
  // Of replies that wait for a slow client, before reply::send says full.
  std::size_t queued_bytes = 256 * 1024;
  // A connection without a whole call for so long is closed; a running call has no limit.
  std::chrono::milliseconds idle{std::chrono::minutes(10)};
  // A client that takes nothing at all for so long while a reply waits is gone.
  std::chrono::milliseconds write_stall{std::chrono::seconds(60)};
  // At a stop: how long the last replies may take to be written.
  std::chrono::milliseconds linger{std::chrono::seconds(1)};
};

}  // namespace terrane::ipc::varlink
