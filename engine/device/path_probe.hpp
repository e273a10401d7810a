// Whether what is copied along a path between two devices arrives whole, asked once for each other
// device and remembered. Any thread.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "engine/device/device.hpp"

namespace terrane::engine {

// Sends noise from memory of one device to memory of another by `copy`, and compares what arrives.
// Fails with contract where it differs, with no_room where a device has none to try it.
result<void> probe_path(device& from, device& to,
                        const std::function<result<void>(const copy_range&)>& copy);

class known_paths {
 public:
  // Why the path to the device of this name is not used; empty where it is. A path for which there
  // was no room is probed again when it is asked for again.
  const std::string& ask(const std::string& name, const std::function<result<void>()>& probe);

 private:
  std::mutex access_;
  std::map<std::string, std::string> refusals_;
};

}  // namespace terrane::engine
