// Which devices take from one memory, and how much of it this model may use: the one rule by which
// pools are made, whether a model is about to be loaded or a snapshot shows it running. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

// Where one device's bytes lie.
struct memory_source {
  std::string card;          // devices of one card share its memory; empty: a card of its own
  bool host_memory = false;  // it takes from the host's; then `card` says nothing
  // What this model may use through this device alone: a budget where one is configured, else what
  // others leave.
  std::uint64_t budget_bytes = 0;
  // What others leave of the card's whole memory, whatever the budget; 0: not known.
  std::uint64_t card_bytes = 0;
};

// The pools of those devices, by their numbers: each card that several of them offer, and the
// host's memory where several take from it and `host_bytes` of it are there for the model (0: not
// known). A card's pool is what is known of the card, the least where its drivers do not agree; but
// a device whose budget says more is given that, as it is by itself.
std::vector<pool> make_pools(const std::vector<memory_source>& devices, std::uint64_t host_bytes);

}  // namespace terrane::policies::placement
