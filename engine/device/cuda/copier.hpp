// Copies between this process and a card through pinned staging memory, on streams of their own:
// they run beside the step loop's lists.
//
// A lane is a stream with two staging halves: while one is being copied by the card, the other is
// filled or emptied. Several lanes, so that the step loop's few bytes do not wait behind a move's
// many. Both calls return when the copy is complete; any thread, as many at once as there are
// lanes.
#pragma once

#include <array>
#include <mutex>
#include <span>

#include "engine/device/cuda/context.hpp"

namespace terrane::engine::cuda {

class copier {
 public:
  explicit copier(const context& card) : card_(card) {}
  ~copier();
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  result<void> write(std::uint64_t address, std::span<const std::byte> from);
  result<void> read(std::uint64_t address, std::span<std::byte> to);

  // Pinned host memory of a lane, for the account.
  static constexpr std::size_t half_bytes = std::size_t{1} << 20;
  static constexpr std::size_t lane_count = 3;

 private:
  struct half {
    CUevent copied = nullptr;
    bool busy = false;
    std::byte* staging = nullptr;
    std::span<std::byte> into;  // what it brings when the copy has ended
  };
  struct lane {
    std::mutex access;
    CUstream stream = nullptr;
    std::byte* staging = nullptr;
    std::array<half, 2> halves;
  };

  std::unique_lock<std::mutex> take(lane*& free);
  result<void> prepare(lane& l);
  result<void> copy(lane& l, half& h, std::uint64_t address, std::size_t bytes, bool to_card);
  result<void> finish(half& h);
  result<void> finish_both(lane& l, result<void> so_far);

  const context& card_;
  std::array<lane, lane_count> lanes_;
};

}  // namespace terrane::engine::cuda
