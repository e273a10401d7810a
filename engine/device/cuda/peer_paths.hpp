// Copies from the memory of another card of the driver (or of this one) straight to this one's. A
// path is probed once; what fails the probe is not used, and why is kept. Any thread.
#pragma once

#include <span>
#include <string>

#include "engine/device/cuda/arena_pool.hpp"
#include "engine/device/cuda/card_copier.hpp"
#include "engine/device/path_probe.hpp"

namespace terrane::engine::cuda {

// A card with its memory.
struct card_parts {
  device& whole;
  const context& card;
  arena_pool& pool;
};

class peer_paths {
 public:
  peer_paths(card_parts here, card_copier& copier) : here_(here), copier_(copier) {}

  // Why the path from the other card is not used; empty where it is.
  const std::string& no_path(const card_parts& from);

  // Along a path that is used; ranges lie inside their memory.
  result<void> copy(const card_parts& from, std::span<const copy_range> ranges);

 private:
  result<void> check_access(const card_parts& from) const;

  const card_parts here_;
  card_copier& copier_;
  known_paths known_;
};

}  // namespace terrane::engine::cuda
