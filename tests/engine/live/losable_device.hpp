// A device whose driver fails when it is told to: at one call, and then at every later one (it is
// lost), or for want of memory once. All of a test share one CPU behind them, so that an engine
// with many starts as fast as with one. Its memory is out of the host's reach, as a card's is, so
// nothing gets by it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace terrane::test {

struct shared_cpu {
  std::unique_ptr<engine::device> cpu;
  std::mutex running;  // one list at a time
};

class losable_device final : public engine::device {
 public:
  losable_device(std::shared_ptr<shared_cpu> on, const std::string& name);

  // The n-th call from now fails, and all after it.
  void lose_at(std::size_t n) { calls_left_ = n; }
  // The n-th allocation from now finds no room; others do.
  void find_no_room_at(std::size_t n) { allocations_left_ = n; }
  // Called before the n-th call from now.
  void call_at(std::size_t n, std::function<void()> f);
  // Called before each call, on whichever thread; to be set while nothing runs.
  void at_each_call(std::function<void()> f) { each_ = std::move(f); }
  // What was asked for and has not come yet does not come any more. True if it had come.
  bool disarm();

  result<const engine::device_kernel*> compile(const kernels::program& p) override;
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override;
  result<void> submit(engine::command_list& list) override;
  result<void> wait() override;
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override;
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override;
  std::optional<error> lost() const override;

 private:
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes,
                                                                 engine::memory_use) override;
  result<void> call();

  std::shared_ptr<shared_cpu> on_;
  std::atomic<std::size_t> calls_left_{0}, allocations_left_{0}, until_hook_{0};  // 0: not armed
  std::atomic<bool> lost_{false}, came_{false};
  std::function<void()> hook_, each_;
};

// What the engine says of parts that it had to put elsewhere.
struct refuge_reports {
  std::mutex guard;
  std::condition_variable changed;
  std::vector<engine::refuge_report> all;
  void add(const engine::refuge_report& r) {
    std::lock_guard lock(guard);
    all.push_back(r);
    changed.notify_all();
  }
  engine::refuge_report wait_for(std::size_t count) {
    std::unique_lock lock(guard);
    changed.wait(lock, [&] { return all.size() >= count; });
    return all.back();
  }
};

// An engine on a synthetic model: device 0 is an ordinary CPU and holds everything, the others can
// be lost.
struct losable_engine {
  std::unique_ptr<engine::inference_engine> engine;
  std::vector<losable_device*> devices;  // null: device 0
};
losable_engine start_losable(const std::string& shape, const std::string& quant,
                             std::size_t devices, engine::engine_options options);

}  // namespace terrane::test
