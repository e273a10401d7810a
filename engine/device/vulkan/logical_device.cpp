#include "engine/device/vulkan/logical_device.hpp"

#include <vector>

namespace terrane::engine::vulkan {

result<std::uint64_t> work_queue::submit(VkCommandBuffer commands) {
  if (result<void> whole = owner_->fault(); !whole) return tl::unexpected(whole.error());
  // Numbers are handed out in the order of submission.
  std::lock_guard in_order(numbering_);
  std::uint64_t number = submitted_.load() + 1;
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &number;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline_;
  VkResult r;
  {
    std::lock_guard lock(*access_);
    r = owner_->functions().vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
  }
  if (result<void> ok = owner_->check(r, "vkQueueSubmit"); !ok) return tl::unexpected(ok.error());
  submitted_.store(number);
  return number;
}

result<void> work_queue::wait(std::uint64_t number) {
  if (result<void> whole = owner_->fault(); !whole) return whole;
  if (number == 0) return {};
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &number;
  VkResult r = owner_->functions().vkWaitSemaphores(owner_->handle(), &info, UINT64_MAX);
  return owner_->check(r, "vkWaitSemaphores");
}

result<std::unique_ptr<logical_device>> logical_device::open(std::shared_ptr<instance> i,
                                                             const physical_device& p) {
  std::unique_ptr<logical_device> made(new logical_device(std::move(i), p));
  if (result<void> ok = made->create(); !ok) return tl::unexpected(ok.error());
  return made;
}

result<void> logical_device::create() {
  const physical_device& p = physical_;
  const float priorities[] = {1.0f, 0.5f};  // steps before copies
  std::vector<VkDeviceQueueCreateInfo> queues(1);
  queues[0].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queues[0].queueFamilyIndex = p.step_family;
  queues[0].queueCount = 1;
  queues[0].pQueuePriorities = priorities;
  const bool same_family = p.copy_family == p.step_family;
  if (same_family) {
    queues[0].queueCount = p.copy_index + 1;
  } else {
    queues.push_back(queues[0]);
    queues[1].queueFamilyIndex = p.copy_family;
    queues[1].pQueuePriorities = priorities + 1;
  }

  std::vector<const char*> extensions;
  VkPhysicalDeviceVulkan12Features features12{};
  features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features12.storageBuffer8BitAccess = VK_TRUE;
  features12.bufferDeviceAddress = VK_TRUE;
  features12.vulkanMemoryModel = VK_TRUE;
  features12.timelineSemaphore = VK_TRUE;
  features12.shaderSubgroupExtendedTypes = p.code.lavapipe;
  VkPhysicalDeviceVulkan11Features features11{};
  features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  features11.pNext = &features12;
  features11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &features11;
  features.features.shaderInt64 = VK_TRUE;
  void** tail = &features12.pNext;
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dot.shaderIntegerDotProduct = VK_TRUE;
  if (p.code.integer_dot) {
    *tail = &dot;
    tail = &dot.pNext;
    if (p.dot_product_extension)
      extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  }
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups{};
  subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  subgroups.subgroupSizeControl = VK_TRUE;
  subgroups.computeFullSubgroups = VK_TRUE;
  if (p.code.subgroup_lanes != 0) {
    *tail = &subgroups;
    if (p.subgroup_extension) extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  }
  if (p.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (p.no_export.empty()) extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);

  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult r = instance_->functions().vkCreateDevice(physical_.handle, &info, nullptr, &handle_);
  if (result<void> ok = check(r, "vkCreateDevice"); !ok) return ok;
  result<device_functions> functions = instance_->functions_of(handle_);
  if (!functions) return tl::unexpected(functions.error());
  vk_ = *functions;
  const bool one_queue = same_family && p.copy_index == 0;
  if (result<void> ok = open_queue(steps_, p.step_family, 0, step_access_); !ok) return ok;
  return open_queue(copies_, p.copy_family, p.copy_index, one_queue ? step_access_ : copy_access_);
}

result<void> logical_device::open_queue(work_queue& q, std::uint32_t family, std::uint32_t index,
                                        std::mutex& access) {
  q.owner_ = this;
  q.access_ = &access;
  vk_.vkGetDeviceQueue(handle_, family, index, &q.queue_);
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  return check(vk_.vkCreateSemaphore(handle_, &info, nullptr, &q.timeline_), "vkCreateSemaphore");
}

logical_device::~logical_device() {
  if (handle_ == VK_NULL_HANDLE || vk_.vkDestroyDevice == nullptr) return;
  vk_.vkDeviceWaitIdle(handle_);
  vk_.vkDestroySemaphore(handle_, steps_.timeline_, nullptr);
  vk_.vkDestroySemaphore(handle_, copies_.timeline_, nullptr);
  vk_.vkDestroyDevice(handle_, nullptr);
}

result<void> logical_device::check(VkResult r, const char* call) {
  if (r == VK_SUCCESS) return {};
  std::string what = std::string(call) + " failed with " + name_of(r);
  const bool memory = r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                      r == VK_ERROR_TOO_MANY_OBJECTS;
  if (memory) return fail(error_code::no_room, what, physical_.info.name);
  std::lock_guard lock(fault_access_);
  if (!fault_) {
    fault_ = error{error_code::device_fault,
                   what + "; the device is not used again until the program restarts",
                   physical_.info.name};
  }
  return tl::unexpected(*fault_);
}

result<void> logical_device::fault() const {
  std::lock_guard lock(fault_access_);
  if (fault_) return tl::unexpected(*fault_);
  return {};
}

}  // namespace terrane::engine::vulkan
