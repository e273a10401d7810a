#include "engine/device/cpu/worker_pool.hpp"

#include <chrono>
#include <cstdlib>
#include <new>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace terrane::engine {

namespace {

using steady = std::chrono::steady_clock;

// How long a thread without work stays awake: it looks without pause, then lets others run between
// looks, then sleeps. Phases follow each other within tens of microseconds; waking a thread takes
// about as long.
constexpr auto spin_alone = std::chrono::microseconds(10);
constexpr auto spin_longest = std::chrono::microseconds(100);

// From so many groups on a phase is worth waking a sleeping worker for.
constexpr std::uint64_t groups_worth_waking = 3;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The numeric contract: round to nearest even, denormals kept, no traps. A thread inherits its
// creator's.
void set_float_environment() {
#if defined(__x86_64__)
  _mm_setcsr(0x1F80);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, xzr");
#endif
}

// Looks until `ready()` or the time is over; tells whether it is ready.
template <class Ready>
bool spin_until(Ready ready) {
  steady::time_point start = steady::now();
  for (;;) {
    for (int k = 0; k < 32; k++) {
      if (ready()) return true;
      pause_briefly();
    }
    auto waited = steady::now() - start;
    if (waited > spin_longest) return ready();
    if (waited > spin_alone) std::this_thread::yield();
  }
}

std::uint64_t groups_of(const cpu_phase& phase) {
  return std::uint64_t{phase.groups_x} * phase.groups_y;
}

// Runs groups [first, first + count), counted in the phase's order.
void run_groups(const cpu_phase& phase, std::uint32_t first, std::uint32_t count,
                std::byte* shared) {
  if (phase.order == group_order::y_first) {
    std::uint32_t x = first / phase.groups_y, y = first % phase.groups_y;
    for (; count > 0; count--) {
      phase.run(phase.arguments.data(), x, x + 1, y, shared);
      if (++y == phase.groups_y) y = 0, x++;
    }
    return;
  }
  std::uint32_t y = first / phase.groups_x, x = first % phase.groups_x;
  while (count > 0) {
    std::uint32_t now = std::min(count, phase.groups_x - x);
    phase.run(phase.arguments.data(), x, x + now, y, shared);
    count -= now;
    x = 0;
    y++;
  }
}

}  // namespace

void worker_pool::free_memory::operator()(std::byte* p) const { std::free(p); }

worker_pool::worker_pool(unsigned threads, std::size_t shared_bytes)
    : threads_(threads), shared_bytes_(shared_bytes) {}

result<std::unique_ptr<worker_pool>> worker_pool::start(unsigned threads,
                                                        std::size_t shared_bytes) {
  std::unique_ptr<worker_pool> pool(new worker_pool(threads, shared_bytes));
  try {
    for (unsigned k = 0; k < threads; k++) {
      auto* p = static_cast<std::byte*>(std::aligned_alloc(line_bytes, shared_bytes));
      if (p == nullptr) throw std::bad_alloc();
      pool->shared_.emplace_back(p);
    }
    pool->running_.emplace_back([p = pool.get()] { p->coordinate(); });
    for (unsigned k = 1; k < threads; k++) {
      pool->running_.emplace_back([p = pool.get(), k] { p->work(k); });
    }
  } catch (const std::exception& e) {
    return fail(error_code::io,
                "cannot start " + std::to_string(threads) + " worker threads: " + e.what(), "cpu");
  }
  return pool;
}

worker_pool::~worker_pool() {
  if (running_.empty()) return;
  wait();
  stopping_.store(true);
  submitted_.fetch_add(1);
  submitted_.notify_all();
  wake_count_.fetch_add(1);
  wake_count_.notify_all();
  for (std::thread& t : running_) t.join();
}

void worker_pool::submit(std::span<const cpu_phase> phases) {
  std::uint32_t number = submitted_.load();
  for (std::uint32_t done = finished_.load(); number - done >= queue_length;
       done = finished_.load()) {
    finished_.wait(done);
  }
  queue_[number % queue_length] = phases;
  submitted_.store(number + 1);
  submitted_.notify_one();
}

void worker_pool::wait() {
  std::uint32_t target = submitted_.load();
  for (std::uint32_t done = finished_.load(); done != target; done = finished_.load()) {
    finished_.wait(done);
  }
}

// ---- the coordinator

void worker_pool::coordinate() {
  set_float_environment();
  for (std::uint32_t next = 0;; next++) {
    while (!spin_until([&] { return submitted_.load(std::memory_order_acquire) != next; })) {
      submitted_.wait(next);
    }
    if (stopping_.load()) return;
    for (const cpu_phase& phase : queue_[next % queue_length]) run_phase(phase, shared_[0].get());
    finished_.store(next + 1);
    finished_.notify_all();
  }
}

void worker_pool::run_phase(const cpu_phase& phase, std::byte* shared) {
  auto groups = static_cast<std::uint32_t>(groups_of(phase));
  if (groups <= 1 || threads_ == 1) {
    if (groups != 0) run_groups(phase, 0, groups, shared);
    return;
  }
  phase_ = &phase;
  groups_done_.store(0, std::memory_order_relaxed);
  std::uint64_t number = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(number << 32 | groups);
  if (groups >= groups_worth_waking && sleepers_.load() != 0) wake_workers();
  while (take_and_run(shared)) {
  }
  auto all_done = [&] { return groups_done_.load(std::memory_order_acquire) == groups; };
  while (!spin_until(all_done)) {
  }
}

void worker_pool::wake_workers() {
  wake_count_.fetch_add(1);
  wake_count_.notify_all();
}

// ---- every worker

// Takes some of the groups that are left and runs them; false if none is left.
bool worker_pool::take_and_run(std::byte* shared) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  std::uint32_t left = 0, count = 0;
  do {
    left = static_cast<std::uint32_t>(ticket);
    if (left == 0) return false;
    // Shrinking runs: few turns at the ticket, and no long run at the end.
    count = std::max(1u, left / (2 * threads_));
  } while (!ticket_.compare_exchange_weak(ticket, ticket - count, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  // The phase cannot end before these groups have been run, so phase_ is the ticket's.
  const cpu_phase& phase = *phase_;
  auto groups = static_cast<std::uint32_t>(groups_of(phase));
  run_groups(phase, groups - left, count, shared);
  groups_done_.fetch_add(count, std::memory_order_acq_rel);
  return true;
}

void worker_pool::work(unsigned worker) {
  set_float_environment();
  std::byte* shared = shared_[worker].get();
  auto has_work = [&] {
    return static_cast<std::uint32_t>(ticket_.load()) != 0 || stopping_.load();
  };
  while (!stopping_.load()) {
    if (take_and_run(shared)) continue;
    if (spin_until(has_work)) continue;
    std::uint32_t seen = wake_count_.load();
    sleepers_.fetch_add(1);
    // Work that came before the coordinator could see this sleeper is seen here.
    if (!has_work()) wake_count_.wait(seen);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace terrane::engine
