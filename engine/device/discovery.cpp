#include "engine/device/discovery.hpp"

#include <array>

#include "engine/device/cpu/cpu_device.hpp"
#include "engine/device/cuda/cuda_device.hpp"
#include "engine/device/self_test.hpp"
#include "engine/device/vulkan/vulkan_device.hpp"

namespace terrane::engine {

namespace {

vulkan_options vulkan_settings(const device_settings& settings) {
  vulkan_options options;
  options.cache_folder = settings.cache_folder;
  return options;
}

// What the driver of a kind offers; where it offers nothing, a line that says why.
template <class Candidate>
void add_candidates(device_kind kind, result<std::vector<Candidate>> offered,
                    std::vector<device_candidate>& to) {
  if (!offered) {
    device_candidate none;
    none.info.kind = kind;
    none.info.name = to_string(kind);
    none.refused = offered.error().message;
    to.push_back(std::move(none));
    return;
  }
  for (Candidate& c : *offered) to.push_back({std::move(c.info), std::move(c.refused)});
}

void add_candidates(device_kind kind, const device_settings& settings,
                    std::vector<device_candidate>& to) {
  if (kind == device_kind::vulkan)
    add_candidates(kind, list_vulkan_devices(vulkan_settings(settings)), to);
  if (kind == device_kind::cuda) add_candidates(kind, list_cuda_devices(), to);
}

constexpr std::array<device_kind, 2> driven_kinds = {device_kind::vulkan, device_kind::cuda};

result<std::unique_ptr<device>> open_candidate(const device_candidate& c,
                                               const device_settings& settings) {
  if (c.info.kind == device_kind::cuda)
    return open_cuda_device(c.info.name, cuda_options{settings.cache_folder});
  return open_vulkan_device(c.info.name, vulkan_settings(settings));
}

result<std::unique_ptr<device>> open_untested(const std::string& name,
                                              const device_settings& settings) {
  if (name == "cpu") return make_cpu_device({settings.cpu_threads, 0, settings.cache_folder});
  std::vector<device_candidate> found;
  for (device_kind kind : driven_kinds)  // only the driver of the kind that is named is started
    if (name.starts_with(to_string(kind))) add_candidates(kind, settings, found);
  std::string refused;
  for (const device_candidate& c : found) {
    if (c.info.name != name && to_string(c.info.kind) != name) continue;
    if (c.refused.empty()) return open_candidate(c, settings);
    refused += (refused.empty() ? "" : "; ") +
               (c.info.name == name ? c.refused : c.info.name + ": " + c.refused);
  }
  if (!refused.empty()) return fail(error_code::unsupported, refused, name);
  std::string known;
  for (const device_candidate& c : list_devices(settings))
    if (c.refused.empty()) known += (known.empty() ? "" : ", ") + c.info.name;
  return fail(error_code::not_found, "there is no device \"" + name + "\"; there are " + known,
              "devices");
}

}  // namespace

std::vector<device_candidate> list_devices(const device_settings& settings) {
  std::vector<device_candidate> found;
  found.push_back({describe_cpu({settings.cpu_threads, 0, settings.cache_folder}), ""});
  for (device_kind kind : driven_kinds) add_candidates(kind, settings, found);
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
