// Memory of a card that one driver allocated and another driver of the same card maps, so that
// copies between the two never leave the card.
//
// The device that owns the memory is an exports_memory; the one that maps it and copies, both ways,
// an imports_memory. Both are found by dynamic_cast. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/device/device.hpp"

namespace terrane::engine {

// What another driver made of an exported allocation: its address of the first byte there. Belongs
// to the allocation, goes before it, and may outlive the device that made it.
class foreign_mapping {
 public:
  virtual ~foreign_mapping() = default;
  foreign_mapping(const foreign_mapping&) = delete;
  foreign_mapping& operator=(const foreign_mapping&) = delete;
  std::uint64_t address() const { return address_; }
  // False once the device that made it is closed: then the address is nothing's.
  virtual bool is_open() const = 0;

 protected:
  explicit foreign_mapping(std::uint64_t address) : address_(address) {}

 private:
  std::uint64_t address_;
};

// Maps an allocation of so many bytes. The descriptor is the callee's to close, also on failure.
using map_exported =
    std::function<result<std::unique_ptr<foreign_mapping>>(int descriptor, std::uint64_t bytes)>;

class exports_memory {
 public:
  virtual ~exports_memory() = default;
  // Why memory of this device cannot be exported; empty where it can.
  virtual const std::string& no_export() const = 0;
  // The other driver's address of memory that this device allocated. The allocation around it is
  // mapped the first time, by one other driver at most.
  virtual result<std::uint64_t> address_elsewhere(const device_memory& of,
                                                  const map_exported& map) = 0;
};

class imports_memory {
 public:
  virtual ~imports_memory() = default;
  // Why memory of `other` is not copied from and to here directly; empty where it is. The first
  // question probes both ways and compares what arrives.
  virtual const std::string& no_shared_path(device& other) = 0;
  // One of the two is this device, the other has a shared path. Complete on return.
  virtual result<void> copy_shared(device& from, device& to,
                                   std::span<const copy_range> ranges) = 0;
};

}  // namespace terrane::engine
