// Starts the engine on a thread of its own, so that the daemon answers and can be stopped
// meanwhile. Belongs to the daemon's main thread. The configuration outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "daemon/lifetime/engine_start.hpp"

namespace terrane::daemon {

class load_thread {
 public:
  // `ended` is called, on the loading thread, when take() has something to give.
  explicit load_thread(std::function<void()> ended) : ended_(std::move(ended)) {}
  ~load_thread();  // gives up and waits

  // Once what the last start gave has been taken. settings.progress and warn are called on the
  // loading thread.
  void start(const config& c, start_settings settings);
  // What came of it, once; nothing while it loads.
  std::optional<result<started_engine>> take();
  // A start that goes on ends soon, with `cancelled`.
  void give_up() { given_up_ = true; }

 private:
  std::function<void()> ended_;
  std::atomic<bool> given_up_{false};
  std::mutex guard_;
  std::optional<result<started_engine>> outcome_;
  std::thread thread_;
};

}  // namespace terrane::daemon
