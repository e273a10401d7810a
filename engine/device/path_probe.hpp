// Whether what is copied along a path between two devices arrives whole, asked once for each other
// device and remembered. Any thread.
#pragma once

#include <chrono>
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
  // `patience`: how long after a probe that found no room another is made.
  explicit known_paths(std::chrono::milliseconds patience = std::chrono::seconds{5})
      : patience_(patience) {}

  // Why the path to the device of this name is not used; empty where it is.
  const std::string& ask(const std::string& name, const std::function<result<void>()>& probe);

 private:
  const std::chrono::milliseconds patience_;
  std::mutex access_;
  std::map<std::string, std::string> refusals_;
  std::map<std::string, std::chrono::steady_clock::time_point> had_no_room_;
};

}  // namespace terrane::engine
