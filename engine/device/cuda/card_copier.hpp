// Copies between addresses that a card reaches: its own memory, that of a card that let it in, and
// what another driver exported.
//
// Copies of a call are enqueued together and waited for once; small calls have a stream of their
// own, so that the step loop does not wait behind a move. Any thread.
#pragma once

#include <mutex>
#include <span>

#include "engine/device/cuda/context.hpp"

namespace terrane::engine::cuda {

struct card_range {
  std::uint64_t from = 0, to = 0;
  std::size_t bytes = 0;
};

class card_copier {
 public:
  explicit card_copier(const context& here) : here_(here) {}
  ~card_copier();
  card_copier(const card_copier&) = delete;
  card_copier& operator=(const card_copier&) = delete;

  // To memory that this card reaches, from memory of `from`, which may be this card. Complete on
  // return, also where it fails.
  result<void> copy(const context& from, std::span<const card_range> ranges);

 private:
  struct lane {
    std::mutex access;
    CUstream stream = nullptr;
    CUevent copied = nullptr;
  };

  result<void> prepare(lane& l);
  result<void> enqueue(lane& l, const context& from, const card_range& r);

  const context& here_;
  lane few_, many_;
};

}  // namespace terrane::engine::cuda
