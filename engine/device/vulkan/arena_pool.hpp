// Memory of a Vulkan device in arenas, each one allocation and one buffer over all of it.
//
// Large requests get an arena of their own; small ones are cut from shared arenas, because drivers
// limit the number of allocations (4096 as a rule). An arena whose last piece is given back is kept
// for a while (engine/device/kept_arenas.hpp), unless no room is found. Owns all arenas; any
// thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/device/gaps.hpp"
#include "engine/device/kept_arenas.hpp"
#include "engine/device/vulkan/logical_device.hpp"

namespace terrane::engine::vulkan {

// One allocation and a buffer over all of it; given back when destroyed.
class arena {
 public:
  static result<std::unique_ptr<arena>> create(logical_device& device, std::uint64_t bytes,
                                               std::uint32_t memory_type, bool mapped);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  VkBuffer buffer() const { return buffer_; }
  std::uint64_t address() const { return address_; }  // aligned to 256 bytes
  std::uint64_t offset() const { return offset_; }    // of address() in the buffer
  std::uint64_t bytes() const { return bytes_; }
  std::byte* host() const { return host_; }  // null where it is not mapped

 private:
  explicit arena(logical_device& device) : device_(device) {}
  result<void> fill(std::uint64_t bytes, std::uint32_t memory_type, bool mapped);

  logical_device& device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::uint64_t address_ = 0, offset_ = 0, bytes_ = 0;
  std::byte* host_ = nullptr;
};

class arena_pool {
 public:
  explicit arena_pool(logical_device& device) : device_(device) {}
  ~arena_pool();

  // Aligned to 256 bytes at least; bytes() is the request rounded up to that.
  result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes);

  // What was given back with this content and holds it still, or null.
  std::unique_ptr<device_memory> take_kept(std::uint64_t bytes, std::uint64_t content);
  // Gives kept arenas back to the driver.
  void trim() { kept_.trim(); }

  struct place {
    VkBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t offset = 0;
    std::byte* mapped = nullptr;  // to write to; null where it is not mapped
  };
  place find(std::uint64_t address) const;  // of an address that allocate() gave

  std::size_t arenas() const;  // in use

 private:
  class piece;
  struct shared_arena {
    std::unique_ptr<arena> memory;
    gaps free;
  };
  using arenas_by_address = std::map<std::uint64_t, shared_arena>;

  std::uint64_t arena_bytes(std::uint64_t bytes) const;
  result<std::unique_ptr<arena>> new_arena(std::uint64_t bytes);
  std::unique_ptr<device_memory> give_out(std::unique_ptr<arena> whole);
  result<std::unique_ptr<device_memory>> own_arena(std::uint64_t bytes);
  std::unique_ptr<device_memory> cut(shared_arena& a, std::uint64_t bytes);
  void give_back(std::uint64_t address, std::uint64_t bytes, std::uint64_t content);
  std::byte* readable(std::byte* mapped) const;

  logical_device& device_;
  mutable std::mutex access_;
  arenas_by_address arenas_;
  kept_arenas<arena> kept_;
};

}  // namespace terrane::engine::vulkan
