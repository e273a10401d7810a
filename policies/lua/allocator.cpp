#include "policies/lua/allocator.hpp"

#include <algorithm>
#include <cstdlib>

namespace terrane::policies::lua {
namespace {

// Lua keeps this many values beyond the size of its stack (EXTRA_STACK in lstate.h), 16 bytes each.
constexpr std::size_t extra_stack_bytes = 5 * 16;

}  // namespace

void* capped_allocator::allocate(void* self, void* block, std::size_t old_bytes,
                                 std::size_t new_bytes) {
  // For a new block Lua passes the kind of object as the old size.
  return static_cast<capped_allocator*>(self)->resize(block, block ? old_bytes : 0, new_bytes);
}

void* capped_allocator::resize(void* block, std::size_t old_bytes, std::size_t new_bytes) {
  if (new_bytes == 0) {
    std::free(block);
    used_bytes_ -= old_bytes;
    return nullptr;
  }
  if (new_bytes > old_bytes) {
    if (grows_stack(block, old_bytes, new_bytes)) return refuse(refusal::stack);
    if (new_bytes > block_bytes_) return refuse(refusal::block);
    if (new_bytes - old_bytes > total_bytes_ - used_bytes_) return refuse(refusal::total);
  }
  void* const moved = std::realloc(block, new_bytes);
  if (!moved) return refuse(refusal::total);
  used_bytes_ = used_bytes_ - old_bytes + new_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  if (measuring_stack_) stack_bytes_ = std::max(stack_bytes_, new_bytes);
  return moved;
}

void capped_allocator::begin_stack() {
  measuring_stack_ = true;
  stack_bytes_ = 0;
}

void capped_allocator::end_stack() { measuring_stack_ = false; }

// Lua grows its stack to twice its size, and cannot be told a lower limit than a million values: a
// table whose __call is itself would shift all of them a million times within one instruction. The
// request is known by its size. Lua 5.4.4 asks for a new block, later versions resize the old one.
bool capped_allocator::grows_stack(const void* block, std::size_t old_bytes,
                                   std::size_t new_bytes) const {
  if (stack_bytes_ == 0 || measuring_stack_) return false;
  const bool from_stack = block ? old_bytes == stack_bytes_ : true;
  return from_stack && new_bytes == 2 * stack_bytes_ - extra_stack_bytes;
}

void* capped_allocator::refuse(refusal why) {
  if (refused_ == refusal::none) {
    refused_ = why;
    if (on_refusal) on_refusal();
  }
  return nullptr;
}

}  // namespace terrane::policies::lua
