// An open VkDevice with its queues: what memory, copies and command lists share.
//
// Owns the device and the timeline semaphores of its queues. Queue access is serialised here; every
// method may be called from any thread. The first failure other than a lack of memory is kept: the
// device is lost for good in this process, and every later call gets the same error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/device/vulkan/physical.hpp"

namespace terrane::engine::vulkan {

class logical_device;

// A queue whose work is numbered: work n has ended when its timeline reaches n.
class work_queue {
 public:
  // Returns the number of the work.
  result<std::uint64_t> submit(VkCommandBuffer commands);
  result<void> wait(std::uint64_t number);
  std::uint64_t last() const { return submitted_.load(); }

 private:
  friend class logical_device;
  logical_device* owner_ = nullptr;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex* access_ = nullptr;  // of queue_, which another work_queue may share
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::mutex numbering_;
  std::atomic<std::uint64_t> submitted_{0};
};

class logical_device {
 public:
  static result<std::unique_ptr<logical_device>> open(std::shared_ptr<instance> i,
                                                      const physical_device& p);
  ~logical_device();
  logical_device(const logical_device&) = delete;
  logical_device& operator=(const logical_device&) = delete;

  const instance& owner() const { return *instance_; }
  const physical_device& physical() const { return physical_; }
  const device_functions& functions() const { return vk_; }
  VkDevice handle() const { return handle_; }
  work_queue& steps() { return steps_; }
  work_queue& copies() { return copies_; }

  // A call's outcome as a value: no_room for a lack of memory; else device_fault, kept.
  result<void> check(VkResult r, const char* call);
  result<void> fault() const;  // the kept failure

 private:
  explicit logical_device(std::shared_ptr<instance> i, const physical_device& p)
      : instance_(std::move(i)), physical_(p) {}
  result<void> create();
  result<void> open_queue(work_queue& q, std::uint32_t family, std::uint32_t index,
                          std::mutex& access);

  std::shared_ptr<instance> instance_;
  physical_device physical_;
  device_functions vk_;
  VkDevice handle_ = VK_NULL_HANDLE;
  std::mutex step_access_, copy_access_;
  work_queue steps_, copies_;
  mutable std::mutex fault_access_;
  std::optional<error> fault_;
};

}  // namespace terrane::engine::vulkan
