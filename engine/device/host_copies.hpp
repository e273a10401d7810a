// Many copies between this process and a device as one operation, for devices on which each alone
// would wait for the card. Found by dynamic_cast; complete on return.
//
// What passes through this process it copies by itself, or by threads that have nothing else to do:
// one thread copies a page less quickly than a card reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/result.hpp"

namespace terrane::engine {

// Bytes of a device's memory, and where they are or are to be in this process.
struct host_range {
  std::uint64_t address = 0;
  std::byte* host = nullptr;
  std::size_t bytes = 0;
};

// Bytes that go from one place in this process to another.
struct host_copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

// Whoever copies within this process; complete on return. A device that is one is used by the
// thread that submits to it, while none of its lists runs.
class host_copier {
 public:
  virtual ~host_copier() = default;
  virtual void copy(std::span<const host_copy> copies) = 0;
  // Copies will come shortly: wakes who sleeps, and waits for nothing.
  virtual void expect() {}
};

// The thread that calls; any thread.
host_copier& copier_of_caller();

// Any thread that may use `by`.
class copies_many {
 public:
  virtual ~copies_many() = default;
  virtual result<void> write_many(std::span<const host_range> ranges, host_copier& by) = 0;
  virtual result<void> read_many(std::span<const host_range> ranges, host_copier& by) = 0;
};

}  // namespace terrane::engine
