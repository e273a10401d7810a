// What a driver offers, judged: may the device be used, and how kernels are best written for it.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/device.hpp"
#include "engine/device/vulkan/loader.hpp"
#include "kernels/spirv/emit_spirv.hpp"

namespace terrane::engine::vulkan {

// What an arena's memory is.
struct arena_kind {
  std::uint32_t memory_type = 0;  // of the driver's
  bool mapped = false;            // this process writes it directly
  bool exported = false;          // another driver may map it
};

struct physical_device {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  device_info info;
  std::string refused;  // why it cannot be used, or empty

  std::uint32_t step_family = 0;  // queue of the step loop
  std::uint32_t copy_family = 0;  // queue of copies; the same family and index: one queue for both
  std::uint32_t copy_index = 0;

  std::uint32_t heap = 0;
  arena_kind memory;               // where kernels' memory lies
  bool quick_to_read = false;      // it is mapped, and reading is cached
  arena_kind staging;              // host memory for copies where it is not mapped
  bool staging_is_cached = false;  // ... which this process reads at its own speed
  // What other drivers of the card can map: as a rule not what this process sees.
  arena_kind exported;
  std::uint64_t largest_allocation = 0;

  kernels::spirv_options code;           // what is best here
  kernels::spirv_options portable_code;  // what any device takes: slower, the same bits
  bool size_subgroups = false;           // ask pipelines for subgroups of code.subgroup_lanes
  bool memory_budget = false;            // VK_EXT_memory_budget
  std::string no_export;
  bool dot_product_extension = false;  // these two: by extension instead of Vulkan 1.3
  bool subgroup_extension = false;
  VkPhysicalDeviceLimits limits{};
  std::array<std::uint8_t, VK_UUID_SIZE> cache_uuid{};
};

// What buffers over arenas are used for.
inline constexpr VkBufferUsageFlags arena_usage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
    VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;

// How exported memory is handed to another driver.
inline constexpr VkExternalMemoryHandleTypeFlagBits exported_handle =
    VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;

// All devices of the instance, refused ones included.
std::vector<physical_device> survey(const instance& i);

// Bytes of the device's heap that are in use by everybody; 0 where the driver does not say.
std::uint64_t used_by_everybody(const instance& i, const physical_device& p);

}  // namespace terrane::engine::vulkan
