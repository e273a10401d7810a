// A question that may take long or never be answered, such as one to a driver, asked on a thread of
// its own: whoever asks waits at most as long as it chooses and sees the last answer with the time
// at which it was asked for. One question is under way at a time. Belongs to one thread; `ask` runs
// on the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/process/left_behind.hpp"

namespace terrane::daemon {

template <class T>
class background_query {
 public:
  struct answer {
    T value;
    std::int64_t asked_ms = 0;
  };
  using time_point = std::chrono::steady_clock::time_point;

  // At the end a question under way is waited for until `longest_end` has passed; then its thread
  // is left to itself, and what `ask` holds lives on with it. None: until it is answered.
  background_query(std::function<T()> ask, std::optional<std::chrono::milliseconds> longest_end)
      : shared_(std::make_shared<shared>()), longest_end_(longest_end) {
    shared_->ask = std::move(ask);
    std::thread([s = shared_] { s->answer_questions(); }).detach();
  }
  background_query(background_query&&) noexcept = default;
  ~background_query() {
    if (shared_ == nullptr) return;  // moved from
    std::unique_lock lock(shared_->guard);
    shared_->stop = true;
    shared_->changed.notify_all();
    const auto ended = [&] { return shared_->ended; };
    if (!longest_end_)
      shared_->changed.wait(lock, ended);
    else if (!shared_->changed.wait_for(lock, *longest_end_, ended))
      threads_left_behind()++;
  }

  // Asks anew, unless the last question is still under way. True if it did.
  bool ask(std::int64_t now_ms) {
    std::lock_guard lock(shared_->guard);
    if (shared_->asked_ms) return false;
    shared_->asked_ms = now_ms;
    shared_->changed.notify_all();
    return true;
  }
  void wait_until(time_point deadline) const {
    std::unique_lock lock(shared_->guard);
    shared_->changed.wait_until(lock, deadline, [&] { return !shared_->asked_ms; });
  }
  // The last answer, if there was one.
  std::optional<answer> latest() const {
    std::lock_guard lock(shared_->guard);
    return shared_->last;
  }
  // When the question under way was asked.
  std::optional<std::int64_t> waiting_since() const {
    std::lock_guard lock(shared_->guard);
    return shared_->asked_ms;
  }

 private:
  struct shared {
    std::function<T()> ask;
    std::mutex guard;
    std::condition_variable changed;
    std::optional<std::int64_t> asked_ms;
    std::optional<answer> last;
    bool stop = false, ended = false;

    void answer_questions() {
      std::unique_lock lock(guard);
      while (true) {
        changed.wait(lock, [&] { return stop || asked_ms.has_value(); });
        if (stop) break;
        lock.unlock();
        T value = ask();
        lock.lock();
        last = answer{std::move(value), *asked_ms};
        asked_ms.reset();
        changed.notify_all();
      }
      ended = true;
      changed.notify_all();
    }
  };

  std::shared_ptr<shared> shared_;
  std::optional<std::chrono::milliseconds> longest_end_;
};

}  // namespace terrane::daemon
