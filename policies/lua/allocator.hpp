// The memory of one Lua state, counted and capped. Three caps: the sum of all blocks, the size of
// one block (a table's array or hash part; it bounds what a single operation of Lua can cost, such
// as rehashing keys chosen to collide), and the value stack. The first refusal is final and sets
// `refused`: its owner ends the script, even though Lua may find room by collecting garbage.
// Owned by the state's owner, and must outlive the state; one thread.
#pragma once

#include <cstddef>
#include <functional>

namespace terrane::policies::lua {

enum class refusal { none, total, block, stack };

class capped_allocator {
 public:
  capped_allocator(std::size_t total_bytes, std::size_t block_bytes)
      : total_bytes_(total_bytes), block_bytes_(block_bytes) {}
  capped_allocator(const capped_allocator&) = delete;
  capped_allocator& operator=(const capped_allocator&) = delete;

  // Lua's allocation function (lua_Alloc); `self` is a capped_allocator.
  static void* allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes);

  // What is allocated between these two calls is the state's value stack at its largest: requests
  // to grow it are refused from then on.
  void begin_stack();
  void end_stack();

  // Called once, at the first refusal, from inside the allocation.
  std::function<void()> on_refusal;

  refusal refused() const { return refused_; }
  std::size_t used_bytes() const { return used_bytes_; }
  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  void* resize(void* block, std::size_t old_bytes, std::size_t new_bytes);
  bool grows_stack(const void* block, std::size_t old_bytes, std::size_t new_bytes) const;
  void* refuse(refusal why);

  std::size_t total_bytes_;
  std::size_t block_bytes_;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::size_t stack_bytes_ = 0;
  bool measuring_stack_ = false;
  refusal refused_ = refusal::none;
};

}  // namespace terrane::policies::lua
