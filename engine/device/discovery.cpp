#include "engine/device/discovery.hpp"

#include "engine/device/cpu/cpu_device.hpp"
#include "engine/device/self_test.hpp"
#include "engine/device/vulkan/vulkan_device.hpp"

namespace terrane::engine {

namespace {

vulkan_options vulkan_settings(const device_settings& settings) {
  vulkan_options options;
  options.cache_folder = settings.cache_folder;
  return options;
}

result<std::unique_ptr<device>> open_untested(const std::string& name,
                                              const device_settings& settings) {
  if (name == "cpu") return make_cpu_device({settings.cpu_threads, 0, settings.cache_folder});
  std::string known = "cpu";
  for (const device_candidate& c : list_devices(settings)) {
    if (c.info.name == name || (to_string(c.info.kind) == name && c.refused.empty())) {
      if (!c.refused.empty()) return fail(error_code::unsupported, c.refused, c.info.name);
      return open_vulkan_device(c.info.name, vulkan_settings(settings));
    }
    if (c.info.kind != device_kind::cpu) known += ", " + c.info.name;
  }
  return fail(error_code::not_found, "there is no device \"" + name + "\"; there are " + known,
              "devices");
}

}  // namespace

std::vector<device_candidate> list_devices(const device_settings& settings) {
  std::vector<device_candidate> found;
  found.push_back({describe_cpu({settings.cpu_threads, 0, settings.cache_folder}), ""});
  result<std::vector<vulkan_candidate>> vulkan = list_vulkan_devices(vulkan_settings(settings));
  if (vulkan)
    for (vulkan_candidate& c : *vulkan) found.push_back({std::move(c.info), std::move(c.refused)});
  return found;
}

result<std::unique_ptr<device>> open_device(const std::string& name,
                                            const device_settings& settings) {
  result<std::unique_ptr<device>> opened = open_untested(name, settings);
  if (!opened || !settings.self_test) return opened;
  result<void> passed = self_test(**opened, settings.cache_folder);
  if (!passed) return tl::unexpected<error>(passed.error());
  return opened;
}

}  // namespace terrane::engine
