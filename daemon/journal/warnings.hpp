// What the administrator should know without having asked: each warning is told once, to the
// journal and to Monitor, and stands in Status as long as it holds. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ipc/control/event_hub.hpp"

namespace terrane::daemon {

class warnings {
 public:
  explicit warnings(ipc::event_hub& events) : events_(events) {}

  void add(const std::string& sentence);
  // One of a kind that comes and goes: told when it is another than before; empty: it holds no
  // more.
  void hold(const std::string& kind, const std::string& sentence);
  std::vector<std::string> all() const;
  // How many were added, and back to so many: what was added since holds no more.
  std::size_t count() const;
  void forget_after(std::size_t count);

 private:
  ipc::event_hub& events_;
  mutable std::mutex guard_;
  std::vector<std::string> standing_;
  std::map<std::string, std::string> held_;  // by kind
};

// To journal and Monitor, without keeping it.
void tell_warning(ipc::event_hub& events, const std::string& sentence);

}  // namespace terrane::daemon
