#include "ipc/control/event_hub.hpp"

#include "ipc/control/json.hpp"

namespace terrane::ipc {

std::int64_t event_hub::publish(const event& what) {
  const std::lock_guard lock(mutex_);
  monitor_reply message{++newest_, 0, what};
  for (auto& [id, who] : subscribers_) {
    message.lost = who.lost;
    switch (who.to.send(to_json(message))) {
      case varlink::sent::yes:
        who.lost = 0;
        break;
      case varlink::sent::full:
        ++who.lost;
        break;
      case varlink::sent::gone:
        break;  // its cancel action takes it out
    }
  }
  return newest_;
}

void event_hub::subscribe(const varlink::reply& to) {
  std::int64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    to.send(to_json(monitor_reply{newest_, 0, std::nullopt}));
    id = ++last_id_;
    subscribers_.emplace(id, subscriber{to, 0});
  }
  to.on_cancel([this, id] { unsubscribe(id); });
}

void event_hub::unsubscribe(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  subscribers_.erase(id);
}

std::int64_t event_hub::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::size_t event_hub::subscribers() const {
  const std::lock_guard lock(mutex_);
  return subscribers_.size();
}

}  // namespace terrane::ipc
