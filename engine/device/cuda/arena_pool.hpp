// Memory of a card in arenas.
//
// An arena is one allocation, mapped at an address of its own where the card can do that (then
// other cards may be let in, and it may be exported as a file descriptor), else a plain one. Large
// requests get an arena of their own; small ones are cut from shared arenas, because memory is
// mapped in units of 2 MiB. Owns all arenas; any thread.
//
// An arena whose last piece is given back is kept for a while: see engine/device/kept_arenas.hpp.
// An allocation that finds no room has kept ones given back.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "engine/device/cuda/context.hpp"
#include "engine/device/gaps.hpp"
#include "engine/device/kept_arenas.hpp"

namespace terrane::engine::cuda {

// One allocation; given back when destroyed.
class arena {
 public:
  static result<std::unique_ptr<arena>> create(const context& card, std::uint64_t bytes);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::uint64_t address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }

  // Lets another card read and write this memory at the same address. Once for each card.
  result<void> let_in(const physical_device& other);

 private:
  explicit arena(const context& card) : card_(card) {}
  result<void> fill(std::uint64_t bytes);
  result<void> map();

  const context& card_;
  CUmemGenericAllocationHandle memory_ = 0;
  bool created_ = false, mapped_ = false;
  std::uint64_t address_ = 0, bytes_ = 0;
  std::set<CUdevice> let_in_;
};

class arena_pool {
 public:
  explicit arena_pool(const context& card) : card_(card) {}
  ~arena_pool();

  // Aligned to 256 bytes at least; bytes() is the request rounded up to that.
  result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes);

  // What was given back with this content and holds it still, or null.
  std::unique_ptr<device_memory> take_kept(std::uint64_t bytes, std::uint64_t content);
  // Gives kept arenas back to the driver.
  void trim() { kept_.trim(); }

  // Lets another card into the arena of an address that allocate() gave.
  result<void> let_in(std::uint64_t address, const physical_device& other);

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

  const context& card_;
  mutable std::mutex access_;
  arenas_by_address arenas_;
  kept_arenas<arena> kept_;
};

}  // namespace terrane::engine::cuda
