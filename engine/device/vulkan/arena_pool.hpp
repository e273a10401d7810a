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
#include "engine/device/shared_memory.hpp"
#include "engine/device/vulkan/logical_device.hpp"

namespace terrane::engine::vulkan {

// One allocation and a buffer over all of it; given back when destroyed.
class arena {
 public:
  static result<std::unique_ptr<arena>> create(logical_device& device, std::uint64_t bytes,
                                               const arena_kind& kind);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  VkBuffer buffer() const { return buffer_; }
  std::uint64_t address() const { return address_; }  // aligned to 256 bytes
  std::uint64_t offset() const { return offset_; }    // of address() in the buffer
  std::uint64_t bytes() const { return bytes_; }
  std::byte* host() const { return host_; }  // null where it is not mapped
  const arena_kind& kind() const { return kind_; }

  // Where another driver of the card sees address(); mapped the first time.
  result<std::uint64_t> address_elsewhere(const map_exported& map);

 private:
  arena(logical_device& device, const arena_kind& kind) : device_(device), kind_(kind) {}
  result<void> fill(std::uint64_t bytes);
  result<void> allocate(const VkMemoryRequirements& needs);

  logical_device& device_;
  const arena_kind kind_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::uint64_t address_ = 0, offset_ = 0, bytes_ = 0;
  std::uint64_t allocated_ = 0;  // bytes of memory_
  std::byte* host_ = nullptr;
  std::mutex mapping_;
  std::unique_ptr<foreign_mapping> elsewhere_;
};

class arena_pool {
 public:
  explicit arena_pool(logical_device& device) : device_(device) {}
  ~arena_pool();

  // Aligned to 256 bytes at least; bytes() is the request rounded up to that. `exported`: of a kind
  // that another driver may map, on a device that has it.
  result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes, bool exported = false);

  // What was given back with this content and holds it still, or null.
  std::unique_ptr<device_memory> take_kept(std::uint64_t bytes, std::uint64_t content,
                                           bool exported = false);
  // Gives kept arenas back to the driver. Whether there were any.
  bool trim();

  struct place {
    VkBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t offset = 0;
    std::byte* mapped = nullptr;  // to write to; null where it is not mapped
  };
  place find(std::uint64_t address) const;  // of an address that allocate() gave
  // Where another driver sees such an address of exported memory, which is not given back
  // meanwhile.
  result<std::uint64_t> address_elsewhere(std::uint64_t address, const map_exported& map) const;

  std::size_t arenas() const;  // in use

 private:
  class piece;
  struct shared_arena {
    std::unique_ptr<arena> memory;
    gaps free;
  };
  using arenas_by_address = std::map<std::uint64_t, shared_arena>;

  std::uint64_t arena_bytes(std::uint64_t bytes) const;
  result<std::unique_ptr<arena>> new_arena(std::uint64_t bytes, bool exported);
  std::unique_ptr<device_memory> give_out(std::unique_ptr<arena> whole);
  result<std::unique_ptr<device_memory>> own_arena(std::uint64_t bytes, bool exported);
  kept_arenas<arena>& kept(bool exported) { return exported ? kept_exported_ : kept_; }
  std::unique_ptr<device_memory> cut(shared_arena& a, std::uint64_t bytes);
  void give_back(std::uint64_t address, std::uint64_t bytes, std::uint64_t content);
  std::byte* readable(std::byte* mapped) const;

  logical_device& device_;
  mutable std::mutex access_;
  arenas_by_address arenas_;
  kept_arenas<arena> kept_, kept_exported_;
};

}  // namespace terrane::engine::vulkan
