// KV pages on one device: for each layer, arenas of pages, handed out one by one. An arena is
// allocated when a layer needs one and given back when its last page returns, so what a part gives
// up is freed whole. Pages keep their arena alive, and lie in it: those of a long context are ten
// thousands, which the heap would clear up in the middle of a pause. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/device.hpp"

namespace terrane::engine {

class page_pool;

// 64 positions of one layer's keys and values (layout: kernels/ops, page_bytes). Returns itself to
// its pool when the last owner lets go.
class kv_page {
 public:
  kv_page(const kv_page&) = delete;
  kv_page& operator=(const kv_page&) = delete;
  std::uint64_t address() const;
  device_memory& memory() const;
  std::size_t offset() const { return offset_; }  // in memory()
  std::uint32_t device() const { return device_; }

 private:
  friend class page_pool;
  struct arena;
  template <class T>
  struct slot_allocator;
  kv_page(std::shared_ptr<arena> of, std::size_t offset, std::uint32_t on)
      : arena_(std::move(of)), offset_(offset), device_(on) {}
  std::shared_ptr<arena> arena_;
  std::size_t offset_;
  std::uint32_t device_;
};
using kv_page_ptr = std::shared_ptr<kv_page>;

class page_pool {
 public:
  static constexpr std::uint32_t pages_together = 16;  // of an arena
  // Pages of `page_bytes` for `layers` layers; `device_index` is what its pages report.
  page_pool(device& on, std::uint32_t device_index, std::uint32_t layers, std::size_t page_bytes);

  // Fails with no_room when the device has none for another arena.
  result<kv_page_ptr> take(std::uint32_t layer);

  std::size_t page_bytes() const { return page_bytes_; }
  // Bytes that `count` further pages of a layer would add to the device (whole arenas).
  std::uint64_t bytes_to_take(std::uint32_t layer, std::uint64_t count) const;

 private:
  device& device_;
  std::uint32_t device_index_;
  std::size_t page_bytes_;
  mutable std::mutex guard_;
  std::vector<std::vector<std::weak_ptr<kv_page::arena>>> layers_;
};

}  // namespace terrane::engine
