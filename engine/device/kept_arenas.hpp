// Arenas of a device that nobody uses, kept for a while before they go back to the driver.
//
// Giving memory back holds up launches, on some drivers those of every card, for some 15
// microseconds an arena; a move leaves hundreds behind. What is kept is given out again to who
// wants as much, best of all to who wants what it holds. What nobody wanted for two seconds goes
// back, one by one with time between them; trim() gives all back at once.
//
// `Arena` has bytes(), and gives itself back when destroyed. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace terrane::engine {

template <class Arena>
class kept_arenas {
 public:
  kept_arenas() : releasing_([this] { release_old(); }) {}
  ~kept_arenas() {
    {
      const std::lock_guard lock(access_);
      ending_ = true;
    }
    wake_.notify_one();
    releasing_.join();
  }
  kept_arenas(const kept_arenas&) = delete;
  kept_arenas& operator=(const kept_arenas&) = delete;

  // `content`: what it holds, as device_memory::content() says it.
  void keep(std::unique_ptr<Arena> unused, std::uint64_t content) {
    const std::lock_guard lock(access_);
    kept_.push_back({std::move(unused), content, std::chrono::steady_clock::now()});
    if (kept_.size() == 1) wake_.notify_one();
  }

  // One of this size, or null. With a content, one that holds it; without, best one that holds
  // nothing, else the oldest.
  std::unique_ptr<Arena> take(std::uint64_t bytes, std::uint64_t content) {
    const std::lock_guard lock(access_);
    auto fit = kept_.end();
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->memory->bytes() != bytes) continue;
      if (at->content == content) {
        fit = at;
        break;
      }
      if (content == 0 && fit == kept_.end()) fit = at;
    }
    if (fit == kept_.end()) return nullptr;
    std::unique_ptr<Arena> found = std::move(fit->memory);
    kept_.erase(fit);
    return found;
  }

  // Whether there was any.
  bool trim() {
    std::list<kept> gone;
    {
      const std::lock_guard lock(access_);
      gone.swap(kept_);
    }
    return !gone.empty();
  }

 private:
  static constexpr std::chrono::milliseconds kept_for{2000}, apart{1};

  struct kept {
    std::unique_ptr<Arena> memory;
    std::uint64_t content;
    std::chrono::steady_clock::time_point since;
  };

  void release_old() {
    std::unique_lock lock(access_);
    while (!ending_) {
      if (kept_.empty()) {
        wake_.wait(lock);
        continue;
      }
      const auto due = kept_.front().since + kept_for;
      if (std::chrono::steady_clock::now() < due) {
        wake_.wait_until(lock, due);
        continue;
      }
      std::unique_ptr<Arena> old = std::move(kept_.front().memory);
      kept_.pop_front();
      lock.unlock();
      old.reset();
      std::this_thread::sleep_for(apart);
      lock.lock();
    }
  }

  std::mutex access_;
  std::list<kept> kept_;  // the oldest first
  bool ending_ = false;
  std::condition_variable wake_;
  std::thread releasing_;
};

}  // namespace terrane::engine
