#include "engine/device/cpu/worker_pool.hpp"

#include <algorithm>
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
constexpr std::uint32_t groups_worth_waking = 3;

// A worker takes one of so many parts of its share at a time.
constexpr std::uint32_t taken_at_once = 4;

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

// Into the second cache; an address that is nobody's does no harm.
void fetch_line(const std::byte* address) { __builtin_prefetch(address, 0, 2); }

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
    : threads_(threads), shared_bytes_(shared_bytes), shares_(std::make_unique<share[]>(threads)) {}

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

void worker_pool::wait_awake() {
  if (!spin_until([&] { return finished_.load() == submitted_.load(); })) wait();
}

std::uint32_t share_begin(const cpu_phase& phase, unsigned worker, unsigned threads) {
  return static_cast<std::uint32_t>(groups_of(phase) * worker / threads);
}

// ---- the coordinator

void worker_pool::coordinate() {
  set_float_environment();
  for (std::uint32_t next = 0;; next++) {
    while (!spin_until([&] { return submitted_.load(std::memory_order_acquire) != next; })) {
      submitted_.wait(next);
    }
    if (stopping_.load()) return;
    for (const cpu_phase& phase : queue_[next % queue_length]) run_phase(phase);
    finished_.store(next + 1);
    finished_.notify_all();
  }
}

void worker_pool::run_phase(const cpu_phase& phase) {
  auto count = static_cast<std::uint32_t>(groups_of(phase));
  if (count <= 1 || threads_ == 1) {
    if (count != 0) run_groups(phase, 0, count, shared_[0].get());
    return;
  }
  phase_ = &phase;
  groups_done_.store(0, std::memory_order_relaxed);
  for (unsigned w = 0; w < threads_; w++) {
    const fetch_ahead next = w < phase.next.size() ? phase.next[w] : fetch_ahead{};
    shares_[w].next_bytes.store(next.bytes, std::memory_order_relaxed);
    shares_[w].next.store(next.from, std::memory_order_relaxed);
    shares_[w].left.store({share_begin(phase, w, threads_), share_begin(phase, w + 1, threads_)},
                          std::memory_order_release);
  }
  opened_.fetch_add(1);
  if (count >= groups_worth_waking && sleepers_.load() != 0) wake_workers();
  run_groups_of_phase(0);
  auto all_done = [&] { return groups_done_.load(std::memory_order_acquire) == count; };
  if (fetch_until(0, all_done)) return;
  while (!spin_until(all_done)) {
  }
}

void worker_pool::wake_workers() {
  wake_count_.fetch_add(1);
  wake_count_.notify_all();
}

// ---- every worker

// Runs groups until there are none left to take. A phase cannot end before the groups that were
// taken have been run, so phase_ is theirs whenever they were taken.
void worker_pool::run_groups_of_phase(unsigned worker) {
  std::uint32_t done = 0;
  while (const std::optional<groups> taken = take(worker)) {
    run_groups(*phase_, taken->first, taken->end - taken->first, shared_[worker].get());
    done += taken->end - taken->first;
  }
  if (done != 0) groups_done_.fetch_add(done, std::memory_order_acq_rel);
}

// Takes a part of the worker's own share, from its beginning, or else of another's, from its end;
// nothing if there is none left.
std::optional<worker_pool::groups> worker_pool::take(unsigned worker) {
  for (unsigned k = 0; k < threads_; k++) {
    std::atomic<groups>& of_one = shares_[(worker + k) % threads_].left;
    groups left = of_one.load(std::memory_order_acquire);
    while (left.first != left.end) {
      const std::uint32_t count = std::max(1u, (left.end - left.first) / taken_at_once);
      groups rest = {left.first, left.end - count};
      if (k == 0) rest = {left.first + count, left.end};
      const groups taken = k == 0 ? groups{left.first, rest.first} : groups{rest.end, left.end};
      if (of_one.compare_exchange_weak(left, rest, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return taken;
      }
    }
  }
  return std::nullopt;
}

// Fetches what the worker will read until `ready()` or there is no more; tells whether it is ready.
// Goes on where it left off: phases without matrices lie between.
template <class Ready>
bool worker_pool::fetch_until(unsigned worker, Ready ready) {
  constexpr std::size_t lines_between_looks = 4;
  share& own = shares_[worker];
  const std::byte* from = own.next.load(std::memory_order_relaxed);
  const std::size_t bytes = own.next_bytes.load(std::memory_order_relaxed);
  if (from == nullptr) return ready();
  if (from != own.fetched.from) own.fetched = {from, 0};
  while (own.fetched.bytes < bytes) {
    if (ready()) return true;
    for (std::size_t k = 0; k < lines_between_looks; k++, own.fetched.bytes += line_bytes)
      fetch_line(from + own.fetched.bytes);
  }
  return ready();
}

void worker_pool::work(unsigned worker) {
  set_float_environment();
  for (std::uint32_t seen = 0; !stopping_.load();) {
    std::uint32_t opened = opened_.load();
    if (opened != seen) {
      seen = opened;
      run_groups_of_phase(worker);
      continue;
    }
    auto has_work = [&] { return opened_.load() != seen || stopping_.load(); };
    if (fetch_until(worker, has_work) || spin_until(has_work)) continue;
    std::uint32_t wakes = wake_count_.load();
    sleepers_.fetch_add(1);
    // Work that came before the coordinator could see this sleeper is seen here.
    if (!has_work()) wake_count_.wait(wakes);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace terrane::engine
