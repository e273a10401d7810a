// Copies between this process and device memory that is not mapped, through staging memory, on the
// queue of copies: they run beside the step loop's lists where the device has a queue to spare.
//
// The staging memory is two halves: while one is being copied by the device, the other is filled or
// emptied. Both calls return when the copy is complete; any thread, one at a time.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "engine/device/vulkan/arena_pool.hpp"

namespace terrane::engine::vulkan {

class copier {
 public:
  copier(logical_device& device, arena_pool& pool) : device_(device), pool_(pool) {}
  ~copier();
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  result<void> write(std::uint64_t address, std::span<const std::byte> from);
  result<void> read(std::uint64_t address, std::span<std::byte> to);

 private:
  struct half {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::uint64_t number = 0;   // of its last work
    std::span<std::byte> into;  // what it brings when that has ended
  };

  result<void> prepare();
  result<void> copy(half& h, std::uint64_t address, std::uint64_t bytes, bool to_device);
  result<void> finish(half& h);
  std::uint64_t offset_of(const half& h) const;

  logical_device& device_;
  arena_pool& pool_;
  std::mutex access_;
  std::unique_ptr<arena> staging_;
  VkCommandPool commands_ = VK_NULL_HANDLE;
  std::array<half, 2> halves_;
};

}  // namespace terrane::engine::vulkan
