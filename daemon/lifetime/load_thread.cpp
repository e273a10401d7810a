#include "daemon/lifetime/load_thread.hpp"

namespace terrane::daemon {

load_thread::~load_thread() {
  give_up();
  if (thread_.joinable()) thread_.join();
}

void load_thread::start(const config& c, start_settings settings) {
  if (thread_.joinable()) thread_.join();  // it has ended: its outcome was taken
  settings.progress = [this, told = std::move(settings.progress)](std::uint64_t done,
                                                                  std::uint64_t total) {
    return !given_up_ && (!told || told(done, total));
  };
  thread_ = std::thread([this, &c, settings = std::move(settings)] {
    result<started_engine> outcome = start_engine(c, settings);
    {
      std::lock_guard lock(guard_);
      outcome_.emplace(std::move(outcome));
    }
    ended_();
  });
}

std::optional<result<started_engine>> load_thread::take() {
  std::lock_guard lock(guard_);
  std::optional<result<started_engine>> taken;
  taken.swap(outcome_);
  return taken;
}

}  // namespace terrane::daemon
