// Copies between this process and a card through pinned staging memory, on streams of their own:
// they run beside the step loop's lists.
//
// A lane is a stream with two staging halves: while one is being copied by the card, the other is
// filled or emptied, by whoever the caller says. A half takes as many ranges as have room in it.
// Several lanes, so that the step loop's few bytes do not wait behind a move's many. Calls return
// when the copies are complete; any thread, as many at once as there are lanes.
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <vector>

#include "engine/device/cuda/context.hpp"
#include "engine/device/host_copies.hpp"

namespace terrane::engine::cuda {

class copier {
 public:
  explicit copier(const context& card) : card_(card) {}
  ~copier();
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  result<void> write(std::uint64_t address, std::span<const std::byte> from);
  result<void> read(std::uint64_t address, std::span<std::byte> to);
  result<void> copy(std::span<const host_range> ranges, bool to_card, host_copier& by);

  // Pinned host memory of a lane, for the account.
  static constexpr std::size_t half_bytes = std::size_t{1} << 20;
  static constexpr std::size_t lane_count = 3;

 private:
  struct half {
    CUevent copied = nullptr;
    bool sent = false;
    std::byte* staging = nullptr;
    std::size_t used = 0;
    std::vector<host_range> ranges;  // what is or will be in it, in order
  };
  struct lane {
    std::mutex access;
    CUstream stream = nullptr;
    std::byte* staging = nullptr;
    std::array<half, 2> halves;
  };

  std::unique_lock<std::mutex> take(lane*& free);
  result<void> prepare(lane& l);
  static std::vector<host_copy> staged(const half& h, bool to_card);
  result<void> send(lane& l, half& h, bool to_card, host_copier& by);
  result<void> finish(half& h, bool to_card, host_copier& by);

  const context& card_;
  std::array<lane, lane_count> lanes_;
};

}  // namespace terrane::engine::cuda
