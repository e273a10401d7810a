// Which devices this machine has, and opening one by name. An open device has passed the self-test
// of the numeric contract, now or earlier with the same driver; one that fails is refused by name
// and operation. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.hpp"

namespace terrane::engine {

struct device_settings {
  unsigned cpu_threads = 0;  // 0: all cores of this process
  std::string cache_folder;  // of compiled code and self-test results; empty: none
  bool self_test = true;
};

// A device that may be opened, or the reason why not.
struct device_candidate {
  device_info info;
  std::string refused;  // empty: usable
};

// The CPU first, then what the drivers offer. A driver that is missing is no error: a candidate
// named by its kind alone ("cuda") says why there is none.
std::vector<device_candidate> list_devices(const device_settings& settings);

// `name`: one that list_devices() gives, or a kind alone for its first usable device. Fails with
// not_found (naming what there is), unsupported (refused by name and reason), or contract (a failed
// self-test).
result<std::unique_ptr<device>> open_device(const std::string& name,
                                            const device_settings& settings);

}  // namespace terrane::engine
