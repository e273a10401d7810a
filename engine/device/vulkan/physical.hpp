// What a driver offers, judged: may the device be used, and how kernels are best written for it.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/device.hpp"
#include "engine/device/vulkan/loader.hpp"
#include "kernels/spirv/emit_spirv.hpp"

namespace terrane::engine::vulkan {

struct physical_device {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  device_info info;
  std::string refused;  // why it cannot be used, or empty

  std::uint32_t step_family = 0;  // queue of the step loop
  std::uint32_t copy_family = 0;  // queue of copies; the same family and index: one queue for both
  std::uint32_t copy_index = 0;

  std::uint32_t heap = 0;
  std::uint32_t memory_type = 0;   // where kernels' memory lies
  bool mapped = false;             // this process reads and writes it directly
  bool quick_to_read = false;      // ... and reading is cached
  std::uint32_t staging_type = 0;  // host memory for copies where it is not
  bool staging_is_cached = false;  // ... which this process reads at its own speed
  std::uint64_t largest_allocation = 0;

  kernels::spirv_options code;           // what is best here
  kernels::spirv_options portable_code;  // what any device takes: slower, the same bits
  bool size_subgroups = false;           // ask pipelines for subgroups of code.subgroup_lanes
  bool memory_budget = false;            // VK_EXT_memory_budget
  bool dot_product_extension = false;    // these two: by extension instead of Vulkan 1.3
  bool subgroup_extension = false;
  VkPhysicalDeviceLimits limits{};
  std::array<std::uint8_t, VK_UUID_SIZE> cache_uuid{};
};

// All devices of the instance, refused ones included.
std::vector<physical_device> survey(const instance& i);

// Bytes of the device's heap that are in use by everybody; 0 where the driver does not say.
std::uint64_t used_by_everybody(const instance& i, const physical_device& p);

}  // namespace terrane::engine::vulkan
