// Copies between this process and device memory that is not mapped, through staging memory, on the
// queue of copies: they run beside the step loop's lists where the device has a queue to spare.
//
// The staging memory is two halves: while one is being copied by the device, the other is filled or
// emptied, by whoever the caller says. Calls return when the copies are complete; any thread, one
// at a time.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/device/host_copies.hpp"
#include "engine/device/vulkan/arena_pool.hpp"

namespace terrane::engine::vulkan {

class copier {
 public:
  copier(logical_device& device, arena_pool& pool) : device_(device), pool_(pool) {}
  ~copier();
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  result<void> write(std::uint64_t address, std::span<const std::byte> from);
  result<void> read(std::uint64_t address, std::span<std::byte> to) {
    const host_range all{address, to.data(), to.size()};
    return copy({&all, 1}, false, copier_of_caller());
  }
  // As many ranges as have room in a half are one work of the device.
  result<void> copy(std::span<const host_range> ranges, bool to_device, host_copier& by);

 private:
  struct half {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::uint64_t number = 0;                // of its last work
    std::vector<std::span<std::byte>> into;  // what it brings, in order, when that has ended
  };
  // Bytes of the device and where they are in a half.
  struct piece {
    std::uint64_t address, staged, bytes;
  };

  result<void> prepare();
  result<void> send(half& h, std::span<const piece> pieces, bool to_device);
  result<void> finish(half& h, host_copier& by);
  std::uint64_t offset_of(const half& h) const;

  logical_device& device_;
  arena_pool& pool_;
  std::mutex access_;
  std::unique_ptr<arena> staging_;
  VkCommandPool commands_ = VK_NULL_HANDLE;
  std::array<half, 2> halves_;
};

}  // namespace terrane::engine::vulkan
