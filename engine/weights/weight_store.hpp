// The weights that lie on one device: blocks of a model, packed, each at most once. A block is
// loaded from the file or copied from another device, shared by the parts that use it, and given
// back with its last user. One store per device; any thread (a move loads while the step loop
// runs).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/copies.hpp"
#include "engine/model/model.hpp"

namespace terrane::engine {

// A block on a device. `address(t)` is where its tensor t begins; without memory, counted from 0.
struct resident_block {
  const weight_block* description = nullptr;
  std::unique_ptr<device_memory> memory;
  double copied_ms = 0;  // what its copy from another device took; 0: there was none
  std::uint64_t address(std::size_t tensor) const {
    return (memory == nullptr ? 0 : memory->address()) + description->tensors[tensor].offset;
  }
};
using resident_block_ptr = std::shared_ptr<const resident_block>;

class weight_store {
 public:
  weight_store(device& on, const model& of);

  // The block if it is here, or null.
  resident_block_ptr find(std::uint32_t block) const;
  // Bytes to allocate before all of these blocks are here.
  std::uint64_t missing_bytes(const std::vector<std::uint32_t>& blocks) const;

  // The block, brought here if it is missing: from `source` (on the device `from`) if given, else
  // from the file, packing it. Fails with no_room, io, device_fault, cancelled or not_finite (with
  // tensor, row and block); nothing stays then.
  result<resident_block_ptr> bring(std::uint32_t block, const resident_block_ptr& source,
                                   device* from, const copy_progress& progress);

  // Whether weights that come from the file are searched for numbers that are not finite (they are,
  // unless told otherwise). Before the first bring().
  void check_numbers(bool wanted) { check_numbers_ = wanted; }

  // Threads that read and pack weights from the file: as many as there are cores while nothing else
  // runs, one (the default) beside replies.
  void load_by(unsigned threads) { threads_ = threads; }

  device& on() const { return device_; }

 private:
  class slices;
  result<void> load(const weight_block& block, device_memory& to, const copy_progress& progress);
  // Rows of a tensor, or its elements where it is a vector, checked if that is wanted.
  result<void> read(const block_tensor& tensor, std::uint64_t row, std::uint64_t rows,
                    std::span<std::byte> stored) const;
  result<void> load_tensor(const block_tensor& tensor, device_memory& to,
                           const copy_progress& progress, std::uint64_t& done);

  device& device_;
  const model& model_;
  bool check_numbers_ = true;
  unsigned threads_ = 1;
  mutable std::mutex guard_;
  std::vector<std::weak_ptr<const resident_block>> blocks_;
};

}  // namespace terrane::engine
