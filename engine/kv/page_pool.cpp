#include "engine/kv/page_pool.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <optional>

namespace terrane::engine {

namespace {
constexpr std::uint32_t arena_pages = page_pool::pages_together;
}

struct kv_page::arena {
  std::unique_ptr<device_memory> memory;
  std::mutex guard;
  std::bitset<arena_pages> used;
  struct slot {
    // A page, its counts of owners and the allocator (checked where it allocates).
    alignas(std::max_align_t) std::array<std::byte, 96> bytes;
  };
  std::array<slot, arena_pages> slots;  // of the pages themselves, with their counts of owners

  std::optional<std::uint32_t> take() {
    std::lock_guard lock(guard);
    for (std::uint32_t i = 0; i < arena_pages; i++) {
      if (!used[i]) {
        used[i] = true;
        return i;
      }
    }
    return std::nullopt;
  }
  void put_back(std::uint32_t index) {
    std::lock_guard lock(guard);
    used[index] = false;
  }
  std::uint32_t free_pages() {
    std::lock_guard lock(guard);
    return arena_pages - static_cast<std::uint32_t>(used.count());
  }
};

// Has shared_ptr keep a page and its count of owners in the page's slot of its arena. The slot is
// free again when shared_ptr has done with it, after the page's end.
template <class T>
struct kv_page::slot_allocator {
  using value_type = T;
  std::shared_ptr<arena> in;
  std::uint32_t index;

  slot_allocator(std::shared_ptr<arena> of, std::uint32_t at) : in(std::move(of)), index(at) {}
  template <class U>
  slot_allocator(const slot_allocator<U>& other) : in(other.in), index(other.index) {}
  T* allocate(std::size_t) {
    static_assert(sizeof(T) <= sizeof(arena::slot) && alignof(T) <= alignof(arena::slot));
    return reinterpret_cast<T*>(in->slots[index].bytes.data());
  }
  void deallocate(T*, std::size_t) { in->put_back(index); }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    new (at) U(std::forward<Arguments>(arguments)...);
  }
  template <class U>
  bool operator==(const slot_allocator<U>& other) const {
    return in == other.in && index == other.index;
  }
};

std::uint64_t kv_page::address() const { return arena_->memory->address() + offset_; }
device_memory& kv_page::memory() const { return *arena_->memory; }

page_pool::page_pool(device& on, std::uint32_t device_index, std::uint32_t layers,
                     std::size_t page_bytes)
    : device_(on), device_index_(device_index), page_bytes_(page_bytes), layers_(layers) {}

result<kv_page_ptr> page_pool::take(std::uint32_t layer) {
  std::lock_guard lock(guard_);
  auto& arenas = layers_[layer];
  std::erase_if(arenas, [](const auto& a) { return a.expired(); });
  auto page = [&](std::shared_ptr<kv_page::arena> a, std::uint32_t index) {
    const kv_page::slot_allocator<kv_page> in_its_slot(a, index);
    return std::allocate_shared<kv_page>(in_its_slot, std::move(a), index * page_bytes_,
                                         device_index_);
  };
  for (const auto& weak : arenas)
    if (auto a = weak.lock())
      if (auto index = a->take()) return page(std::move(a), *index);
  result<std::unique_ptr<device_memory>> memory =
      device_.allocate(arena_pages * page_bytes_, memory_use::kv);
  if (!memory) return tl::unexpected<error>(memory.error());
  auto made = std::make_shared<kv_page::arena>();
  made->memory = std::move(*memory);
  arenas.push_back(made);
  return page(made, *made->take());
}

std::uint64_t page_pool::bytes_to_take(std::uint32_t layer, std::uint64_t count) const {
  std::lock_guard lock(guard_);
  std::uint64_t free = 0;
  for (const auto& weak : layers_[layer])
    if (auto a = weak.lock()) free += a->free_pages();
  const std::uint64_t missing = count > free ? count - free : 0;
  return (missing + arena_pages - 1) / arena_pages * arena_pages * page_bytes_;
}

}  // namespace terrane::engine
