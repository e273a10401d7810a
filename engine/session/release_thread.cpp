#include "engine/session/release_thread.hpp"

#include <utility>

namespace terrane::engine {

release_thread::release_thread() : thread_([this] { run(); }) {}

release_thread::~release_thread() {
  {
    const std::lock_guard lock(guard_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void release_thread::give(std::shared_ptr<void> unneeded) {
  {
    const std::lock_guard lock(guard_);
    given_.push_back(std::move(unneeded));
    count_given_++;
  }
  changed_.notify_all();
}

bool release_thread::finish() {
  std::unique_lock lock(guard_);
  const std::uint64_t so_far = count_given_;
  if (count_freed_ == so_far) return false;
  // Not for what is given meanwhile: where sessions come and go that has no end.
  changed_.wait(lock, [&] { return count_freed_ >= so_far; });
  return true;
}

void release_thread::run() {
  std::vector<std::shared_ptr<void>> now;
  std::unique_lock lock(guard_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !given_.empty(); });
    if (given_.empty()) return;
    now.swap(given_);
    const std::size_t count = now.size();
    lock.unlock();
    now.clear();
    lock.lock();
    count_freed_ += count;
    changed_.notify_all();
  }
}

}  // namespace terrane::engine
