// Vulkan devices: what the machine has, and opening one.
//
// The loader (libvulkan.so.1) is opened when first asked for; a machine without it gives an error
// value and nothing else changes. Each open device owns an instance of its own, so devices may be
// opened and closed in any order. Both functions may be called from any thread; the device keeps
// the thread rules of engine/device/device.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.hpp"

namespace terrane::engine {

struct vulkan_options {
  std::filesystem::path cache_folder;  // compiled pipelines are kept here; empty: nowhere
  bool portable_code = false;  // write kernels as if nothing but Vulkan 1.2 were known: for tests
  bool load_early = false;     // with code for GPUs that have registers to spare: for tests
  bool validation = false;     // with VK_LAYER_KHRONOS_validation; unsupported where not installed
};

// A device that a driver offers. `refused` says why it cannot be used, or is empty.
struct vulkan_candidate {
  device_info info;
  std::string refused;
};

// All devices of all drivers, usable or not, in the loader's order. Fails with `unsupported` where
// there is no loader or no driver.
result<std::vector<vulkan_candidate>> list_vulkan_devices(const vulkan_options& options = {});

// Opens a device by the name that list_vulkan_devices() gave: "vulkan:" and the device's UUID.
// not_found if no driver offers it, unsupported with the reason if it is refused.
result<std::unique_ptr<device>> open_vulkan_device(const std::string& name,
                                                   const vulkan_options& options = {});

}  // namespace terrane::engine
