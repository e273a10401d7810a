// Copies between this card's memory and memory of the same card that another driver exported: CUDA
// maps it and copies both ways. A path is probed once, both ways; what fails the probe is not used,
// and why is kept. Any thread.
#pragma once

#include <span>
#include <string>

#include "engine/device/cuda/card_copier.hpp"
#include "engine/device/cuda/foreign_memory.hpp"
#include "engine/device/path_probe.hpp"

namespace terrane::engine::cuda {

class shared_paths {
 public:
  shared_paths(device& here, const context& card, card_copier& copier)
      : here_(here), card_(card), copier_(copier), foreign_(card) {}

  // Why copies from and to the other device do not go straight; empty where they do.
  const std::string& no_path(device& other);

  // Along a path that is used; one of the two is this device. Ranges of it lie inside their memory.
  result<void> copy(device& from, device& to, std::span<const copy_range> ranges);

 private:
  result<void> check_card(device& other) const;
  result<std::uint64_t> address_of(device& owner, const device_memory& of);

  device& here_;
  const context& card_;
  card_copier& copier_;
  foreign_memory foreign_;
  known_paths known_;
};

}  // namespace terrane::engine::cuda
