// One thread that does in order what must not be done on the control server's thread: calls that
// wait for the engine's step. Any thread may add work; what is still waiting at the end is dropped.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace terrane::daemon {

class worker {
 public:
  worker() : thread_([this] { run(); }) {}
  ~worker() { end(); }
  // Returns when the running work is done; nothing is done after.
  void end() {
    {
      std::lock_guard lock(guard_);
      ending_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  void add(std::function<void()> work) {
    {
      std::lock_guard lock(guard_);
      work_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

 private:
  void run() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock lock(guard_);
        wake_.wait(lock, [this] { return ending_ || !work_.empty(); });
        if (ending_) return;
        next = std::move(work_.front());
        work_.pop_front();
      }
      next();
    }
  }

  std::mutex guard_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrane::daemon
