// A card as a device: memory, kernels, command lists and copies put together. Keeps the thread
// rules of engine/device/device.hpp.
#pragma once

#include <chrono>

#include "engine/device/cuda/arena_pool.hpp"
#include "engine/device/cuda/card_copier.hpp"
#include "engine/device/cuda/copier.hpp"
#include "engine/device/cuda/cuda_device.hpp"
#include "engine/device/cuda/graph_cache.hpp"
#include "engine/device/cuda/kernel_store.hpp"
#include "engine/device/cuda/peer_paths.hpp"
#include "engine/device/cuda/pinned_memory.hpp"
#include "engine/device/cuda/shared_paths.hpp"

namespace terrane::engine::cuda {

class gpu : public device, public copies_many, public imports_memory {
 public:
  static result<std::unique_ptr<device>> open(const driver& d, const physical_device& p,
                                              const cuda_options& options);
  ~gpu() override;

  result<const device_kernel*> compile(const kernels::program& p) override;
  result<std::unique_ptr<command_list>> record(std::span<const dispatch> phases) override;
  result<void> submit(command_list& list) override;
  result<void> wait() override;
  result<void> write(device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override;
  result<void> read(const device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override;
  result<void> write_for_next(device_memory& to, std::size_t offset,
                              std::span<const std::byte> from) override;
  result<void> write_many(std::span<const host_range> ranges, host_copier& by) override {
    return copier_.copy(ranges, true, by);
  }
  result<void> read_many(std::span<const host_range> ranges, host_copier& by) override {
    return copier_.copy(ranges, false, by);
  }
  const std::string& no_direct_path(device& from) override;
  result<void> copy_direct(device& from, std::span<const copy_range> ranges) override;
  const std::string& no_shared_path(device& other) override { return shared_.no_path(other); }
  result<void> copy_shared(device& from, device& to, std::span<const copy_range> ranges) override;
  std::uint64_t driver_used_bytes() const override;
  std::optional<error> lost() const override {
    const result<void> whole = card_->fault();
    return whole ? std::nullopt : std::optional(whole.error());
  }
  void trim() override { pool_.trim(); }
  // Where the host pins no more, on the card.
  result<std::unique_ptr<device_memory>> allocate_results(std::size_t bytes) override {
    result<std::unique_ptr<device_memory>> made = allocate_pinned(*card_, bytes);
    const bool refused = !made && made.error().code == error_code::no_room;
    return refused ? device::allocate_results(bytes) : std::move(made);
  }

 protected:
  result<std::unique_ptr<device_memory>> allocate_memory(std::size_t bytes, memory_use) override {
    return pool_.allocate(bytes);
  }
  std::unique_ptr<device_memory> take_kept(std::size_t bytes, memory_use,
                                           std::uint64_t content) override {
    return pool_.take_kept(bytes, content);
  }

 private:
  gpu(std::unique_ptr<context> card, const cuda_options& options)
      : device(card->physical().info),
        card_(std::move(card)),
        pool_(*card_),
        copier_(*card_),
        between_(*card_),
        peers_(parts(), between_),
        shared_(*this, *card_, between_),
        kernels_(*card_, options.cache_folder) {
    keeps_memory(true);
  }
  card_parts parts() { return {*this, *card_, pool_}; }
  result<void> prepare();
  result<void> check_phases(std::span<const dispatch> phases) const;
  result<void> check_range(const device_memory& m, std::size_t offset, std::size_t bytes) const;
  result<std::shared_ptr<recorded_graph>> make_graph(std::span<const dispatch> phases);
  result<void> add_piece(recorded_graph& to, std::span<const dispatch> phases);
  result<CUgraph> capture(std::span<const dispatch> phases);
  result<void> launch_all(std::span<const dispatch> phases);

  std::unique_ptr<context> card_;
  arena_pool pool_;
  copier copier_;
  card_copier between_;
  peer_paths peers_;
  shared_paths shared_;
  kernel_store kernels_;
  std::mutex recording_access_;
  CUstream recording_ = nullptr;             // lists are captured from it, nothing runs on it
  graph_cache graphs_;                       // under recording_access_
  std::unique_ptr<device_memory> for_next_;  // pinned: what was written for the next list
  // Of the last submitted list.
  CUevent ended_ = nullptr;
  std::chrono::steady_clock::time_point submitted_at_;
  std::shared_ptr<recorded_graph> running_;
};

}  // namespace terrane::engine::cuda
