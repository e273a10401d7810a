// Threads that run the workgroups of phases, one phase after another.
//
// A coordinator thread, itself a worker, takes submitted lists in order. It opens a phase by
// giving each worker a share of its groups, one next to the other: what a group reads ahead is
// then mostly what its worker reads next. A worker without groups takes some of another's, from
// the end. The coordinator goes on when every group has been run, whether or not all workers took
// part. A phase of one group is run by the coordinator alone. Workers without work fetch what they
// read first in a later phase into their caches, spin for a while, then sleep until the next list
// or phase.
//
// submit(), wait() and wait_awake() are for one thread at a time and allocate nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/device/device.hpp"
#include "kernels/llvm/host_compiler.hpp"

namespace terrane::engine {

// Memory that a worker may fetch into its cache while it has nothing else to do.
struct fetch_ahead {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

// A phase ready to run.
struct cpu_phase {
  kernels::group_function run = nullptr;
  std::uint32_t groups_x = 0, groups_y = 0;
  std::array<std::uint64_t, kernels::max_arguments> arguments{};
  group_order order = group_order::x_first;
  // By worker, what it will read first in a later phase; empty: nothing. The list's.
  std::span<const fetch_ahead> next = {};
};

// The first group, in the phase's order, of a worker's share; of worker `threads`: the end.
std::uint32_t share_begin(const cpu_phase& phase, unsigned worker, unsigned threads);

class worker_pool {
 public:
  // `shared_bytes`: the most shared memory that a kernel may use.
  static result<std::unique_ptr<worker_pool>> start(unsigned threads, std::size_t shared_bytes);
  ~worker_pool();  // after the lists submitted so far
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  unsigned threads() const { return threads_; }
  // The phases must stay as they are until wait() returns. Waits if too many lists are queued.
  void submit(std::span<const cpu_phase> phases);
  void wait();
  // The same, for lists that take some ten microseconds: looks before it sleeps.
  void wait_awake();

 private:
  static constexpr std::uint32_t queue_length = 64;
  static constexpr std::size_t line_bytes = 64;  // apart from what other threads write

  // Groups [first, end) that nobody has taken yet.
  struct groups {
    std::uint32_t first = 0, end = 0;
  };
  struct alignas(line_bytes) share {
    std::atomic<groups> left;
    std::atomic<const std::byte*> next{nullptr};  // what to fetch
    std::atomic<std::size_t> next_bytes{0};
    fetch_ahead fetched;  // of it; the worker's own
  };

  worker_pool(unsigned threads, std::size_t shared_bytes);
  void coordinate();
  void work(unsigned worker);
  void run_phase(const cpu_phase& phase);
  void run_groups_of_phase(unsigned worker);
  std::optional<groups> take(unsigned worker);
  template <class Ready>
  bool fetch_until(unsigned worker, Ready ready);
  void wake_workers();

  const unsigned threads_;
  const std::size_t shared_bytes_;

  std::array<std::span<const cpu_phase>, queue_length> queue_;
  alignas(line_bytes) std::atomic<std::uint32_t> submitted_{0};  // lists, counted since the start
  std::atomic<bool> stopping_{false};
  alignas(line_bytes) std::atomic<std::uint32_t> finished_{0};

  alignas(line_bytes) std::atomic<std::uint32_t> opened_{0};  // phases, counted since the start
  const cpu_phase* phase_ = nullptr;                          // the one opened last
  std::unique_ptr<share[]> shares_;                           // of its groups, by worker
  alignas(line_bytes) std::atomic<std::uint32_t> groups_done_{0};
  alignas(line_bytes) std::atomic<std::uint32_t> wake_count_{0};  // changes to wake sleepers
  std::atomic<std::uint32_t> sleepers_{0};

  struct free_memory {
    void operator()(std::byte* p) const;
  };
  std::vector<std::unique_ptr<std::byte, free_memory>> shared_;  // by worker
  std::vector<std::thread> running_;                             // the coordinator first
};

}  // namespace terrane::engine
