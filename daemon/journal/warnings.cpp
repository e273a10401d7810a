#include "daemon/journal/warnings.hpp"

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"

namespace terrane::daemon {

void tell_warning(ipc::event_hub& events, const std::string& sentence) {
  log(log_level::warning, sentence);
  events.publish(event_now(ipc::event_kind::warning, sentence));
}

void warnings::add(const std::string& sentence) {
  {
    std::lock_guard lock(guard_);
    standing_.push_back(sentence);
  }
  tell_warning(events_, sentence);
}

void warnings::hold(const std::string& kind, const std::string& sentence) {
  {
    std::lock_guard lock(guard_);
    std::string& held = held_[kind];
    if (held == sentence) return;
    held = sentence;
  }
  if (!sentence.empty()) tell_warning(events_, sentence);
}

std::vector<std::string> warnings::all() const {
  std::lock_guard lock(guard_);
  std::vector<std::string> all = standing_;
  for (const auto& [kind, sentence] : held_)
    if (!sentence.empty()) all.push_back(sentence);
  return all;
}

std::size_t warnings::count() const {
  std::lock_guard lock(guard_);
  return standing_.size();
}

void warnings::forget_after(std::size_t count) {
  std::lock_guard lock(guard_);
  if (count < standing_.size()) standing_.resize(count);
}

}  // namespace terrane::daemon
