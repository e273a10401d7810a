// Memory of this card that another driver exported, mapped for CUDA.
//
// A mapping belongs to the other driver's allocation and goes with it; those that are left when the
// card is closed are unmapped then, and their allocations keep an empty one. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "engine/device/cuda/context.hpp"
#include "engine/device/shared_memory.hpp"

namespace terrane::engine::cuda {

class foreign_memory {
 public:
  explicit foreign_memory(const context& card);
  ~foreign_memory();
  foreign_memory(const foreign_memory&) = delete;
  foreign_memory& operator=(const foreign_memory&) = delete;

  // Of the file descriptor of an allocation, which this call takes over.
  result<std::unique_ptr<foreign_mapping>> map(int descriptor, std::uint64_t bytes);

 private:
  class mapping;
  // What mappings see of this object while it lives.
  struct open_mappings {
    std::mutex access;
    const context* card = nullptr;  // null: closed
    std::set<mapping*> all;
  };

  result<void> check(CUresult r, const char* call) const;

  const std::shared_ptr<open_mappings> open_;
};

}  // namespace terrane::engine::cuda
