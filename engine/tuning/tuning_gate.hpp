// Keeps apart the timing of kernels and everything else that submits to devices. Timing begins only
// while nobody uses them, one at a time; who wants to use them meanwhile asks it to end and waits
// for that. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace terrane::engine {

class tuning_gate {
 public:
  // While it lives no timing begins. Made while one goes on, it waits for its end.
  class use {
   public:
    explicit use(tuning_gate& gate) : gate_(gate) {
      std::unique_lock lock(gate_.guard_);
      gate_.users_++;
      gate_.wanted_ = true;
      gate_.changed_.wait(lock, [this] { return !gate_.timing_; });
    }
    ~use() {
      std::lock_guard lock(gate_.guard_);
      gate_.wanted_ = --gate_.users_ > 0;
    }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

   private:
    tuning_gate& gate_;
  };

  bool begin_timing() {
    std::lock_guard lock(guard_);
    if (timing_ || users_ > 0) return false;
    return timing_ = true;
  }
  void end_timing() {
    {
      std::lock_guard lock(guard_);
      timing_ = false;
    }
    changed_.notify_all();
  }
  // Whether somebody waits for the timing to end.
  bool wanted() const { return wanted_; }

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  bool timing_ = false;
  int users_ = 0;
  std::atomic<bool> wanted_{false};
};

}  // namespace terrane::engine
