// Copies from the memory of another card (or of this one) straight to this one's.
//
// A path is probed once: noise is sent along it, read back here and compared. What fails the probe
// is not used, and why is kept. Copies of a call are enqueued together and waited for once; small
// calls have a stream of their own, so that the step loop does not wait behind a move. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>

#include "engine/device/cuda/arena_pool.hpp"
#include "engine/device/cuda/copier.hpp"

namespace terrane::engine::cuda {

// What of a card a copy needs.
struct card_parts {
  const context& card;
  arena_pool& pool;
  copier& host_copies;
};

class peer_copier {
 public:
  explicit peer_copier(card_parts here) : here_(here) {}
  ~peer_copier();
  peer_copier(const peer_copier&) = delete;
  peer_copier& operator=(const peer_copier&) = delete;

  // Why the path from the other card is not used; empty where it is.
  const std::string& no_path(const card_parts& from);

  // Along a path that is used; ranges lie inside their memory.
  result<void> copy(const card_parts& from, std::span<const copy_range> ranges);

 private:
  struct lane {
    std::mutex access;
    CUstream stream = nullptr;
    CUevent copied = nullptr;
  };

  result<void> probe(const card_parts& from);
  result<void> prepare(lane& l);
  result<void> enqueue(lane& l, const card_parts& from, std::uint64_t to, std::uint64_t source,
                       std::size_t bytes);

  const card_parts here_;
  lane few_, many_;
  std::mutex probing_;
  std::map<std::string, std::string> no_path_;  // by the other card's name
};

}  // namespace terrane::engine::cuda
