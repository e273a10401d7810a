// Where the daemon publishes events and Monitor's subscribers get them. The daemon owns the hub and
// it outlives the control server. `publish` may be called from any thread and never waits for a
// subscriber: one that is too slow loses the event, and is told how many it lost with the next one
// that it gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "ipc/control/types.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc {

class event_hub {
 public:
  // Numbers the event (1, 2, 3, ...), hands it to every subscriber, and returns its number.
  std::int64_t publish(const event& what);

  // Sends events to `to` until its client goes away, beginning with a reply that has the number of
  // the newest event so far.
  void subscribe(const varlink::reply& to);

  std::int64_t newest() const;
  // Whose clients are still there.
  std::size_t subscribers() const;

 private:
  struct subscriber {
    varlink::reply to;
    std::int64_t lost = 0;
  };

  void unsubscribe(std::int64_t id);

  mutable std::mutex mutex_;
  std::int64_t newest_ = 0;
  std::int64_t last_id_ = 0;
  std::map<std::int64_t, subscriber> subscribers_;
};

}  // namespace terrane::ipc
