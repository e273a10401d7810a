#include "tests/bench/devices.hpp"

#include "tests/bench/bench_model.hpp"

namespace terrane::bench {

boost::json::object run_devices(const std::string& cache_folder) {
  engine::device_settings settings;
  settings.cache_folder = cache_folder;
  boost::json::array devices;
  for (const engine::device_candidate& c : engine::list_devices(settings)) {
    boost::json::object line{{"name", c.info.name},
                             {"description", c.info.description},
                             {"memory_bytes", c.info.memory_bytes}};
    if (c.refused.empty()) {
      const steady_time begin = std::chrono::steady_clock::now();
      result<std::unique_ptr<engine::device>> opened = engine::open_device(c.info.name, settings);
      line["open_ms"] = ms_between(begin, std::chrono::steady_clock::now());
      line["self_test"] = opened ? "passed" : to_string(opened.error());
      if (opened) line["description"] = (*opened)->info().description;
    } else {
      line["refused"] = c.refused;
    }
    devices.push_back(std::move(line));
  }
  return {{"command", "devices"}, {"devices", std::move(devices)}};
}

}  // namespace terrane::bench
