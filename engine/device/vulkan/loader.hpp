// The Vulkan loader, opened at run time, and the entry points used here.
//
// Entry points are members with Vulkan's own names, so a call reads `vk.vkQueueSubmit(...)`. The
// loader library stays open for the life of the process. Tables are plain values; any thread.
#pragma once

#include <memory>
#include <string>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "kernels/result.hpp"

namespace terrane::engine::vulkan {

#define TERRANE_VULKAN_INSTANCE_FUNCTIONS(X)     \
  X(vkDestroyInstance)                           \
  X(vkEnumeratePhysicalDevices)                  \
  X(vkGetPhysicalDeviceProperties2)              \
  X(vkGetPhysicalDeviceFeatures2)                \
  X(vkGetPhysicalDeviceMemoryProperties2)        \
  X(vkGetPhysicalDeviceQueueFamilyProperties)    \
  X(vkGetPhysicalDeviceExternalBufferProperties) \
  X(vkEnumerateDeviceExtensionProperties)        \
  X(vkCreateDevice)                              \
  X(vkGetDeviceProcAddr)

#define TERRANE_VULKAN_DEVICE_FUNCTIONS(X) \
  X(vkDestroyDevice)                       \
  X(vkGetDeviceQueue)                      \
  X(vkQueueSubmit)                         \
  X(vkDeviceWaitIdle)                      \
  X(vkAllocateMemory)                      \
  X(vkFreeMemory)                          \
  X(vkMapMemory)                           \
  X(vkCreateBuffer)                        \
  X(vkDestroyBuffer)                       \
  X(vkGetBufferMemoryRequirements)         \
  X(vkBindBufferMemory)                    \
  X(vkGetBufferDeviceAddress)              \
  X(vkCreateSemaphore)                     \
  X(vkDestroySemaphore)                    \
  X(vkWaitSemaphores)                      \
  X(vkCreateCommandPool)                   \
  X(vkDestroyCommandPool)                  \
  X(vkAllocateCommandBuffers)              \
  X(vkFreeCommandBuffers)                  \
  X(vkBeginCommandBuffer)                  \
  X(vkEndCommandBuffer)                    \
  X(vkCmdBindPipeline)                     \
  X(vkCmdPushConstants)                    \
  X(vkCmdDispatch)                         \
  X(vkCmdPipelineBarrier)                  \
  X(vkCmdCopyBuffer)                       \
  X(vkCreateShaderModule)                  \
  X(vkDestroyShaderModule)                 \
  X(vkCreatePipelineLayout)                \
  X(vkDestroyPipelineLayout)               \
  X(vkCreateComputePipelines)              \
  X(vkDestroyPipeline)                     \
  X(vkCreatePipelineCache)                 \
  X(vkDestroyPipelineCache)                \
  X(vkGetPipelineCacheData)

#define TERRANE_VULKAN_MEMBER(name) PFN_##name name = nullptr;
struct instance_functions {
  TERRANE_VULKAN_INSTANCE_FUNCTIONS(TERRANE_VULKAN_MEMBER)
};
struct device_functions {
  TERRANE_VULKAN_DEVICE_FUNCTIONS(TERRANE_VULKAN_MEMBER)
  PFN_vkGetMemoryFdKHR vkGetMemoryFdKHR = nullptr;  // null where its extension is not enabled
};
#undef TERRANE_VULKAN_MEMBER

// An instance of Vulkan 1.2 or newer.
class instance {
 public:
  static result<std::shared_ptr<instance>> create(bool validation);
  ~instance();
  instance(const instance&) = delete;
  instance& operator=(const instance&) = delete;

  VkInstance handle() const { return handle_; }
  const instance_functions& functions() const { return vk_; }
  result<device_functions> functions_of(VkDevice device) const;

 private:
  instance() = default;
  VkInstance handle_ = VK_NULL_HANDLE;
  instance_functions vk_;
};

// "VK_ERROR_DEVICE_LOST" and so on; the number where this build does not know the name.
std::string name_of(VkResult r);

}  // namespace terrane::engine::vulkan
