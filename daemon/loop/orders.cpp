#include "daemon/loop/orders.hpp"

#include <algorithm>

namespace terrane::daemon {

namespace {

std::uint64_t ours_on(const engine::device& d) {
  return d.used_bytes(engine::memory_use::weights) + d.used_bytes(engine::memory_use::kv);
}

}  // namespace

void orders::switch_policy(const std::string& name, bool enabled) {
  std::lock_guard lock(guard_);
  std::erase(disabled_, name);
  if (!enabled) disabled_.push_back(name);
}

bool orders::is_disabled(const std::string& name) const {
  std::lock_guard lock(guard_);
  return std::find(disabled_.begin(), disabled_.end(), name) != disabled_.end();
}

std::vector<std::string> orders::disabled() const {
  std::lock_guard lock(guard_);
  return disabled_;
}

std::vector<policies::yield_order> orders::yields() const {
  std::lock_guard lock(guard_);
  return yields_;
}

std::uint64_t orders::yield(policies::yield_order order, const engine::device& device) {
  std::lock_guard lock(guard_);
  std::erase_if(yields_, [&](const auto& y) { return y.device == order.device; });
  yields_.push_back(std::move(order));
  return ours_on(device);
}

void orders::await(engine::device& device, std::uint64_t before_bytes, std::int64_t until_ms,
                   told tell) {
  std::lock_guard lock(guard_);
  waiting_.push_back({device.info().name, &device, before_bytes, until_ms, std::move(tell)});
}

std::vector<std::string> orders::end_yield(const std::optional<std::string>& device) {
  std::lock_guard lock(guard_);
  std::vector<std::string> ended;
  std::erase_if(yields_, [&](const auto& y) {
    if (device && y.device != *device) return false;
    ended.push_back(y.device);
    return true;
  });
  return ended;
}

void orders::resume(std::vector<std::string> disabled, std::vector<policies::yield_order> yields) {
  std::lock_guard lock(guard_);
  disabled_ = std::move(disabled);
  yields_ = std::move(yields);
}

void orders::put_into(policies::snapshot& s) {
  std::lock_guard lock(guard_);
  std::erase_if(yields_, [&](const auto& y) {
    return y.until_ms != policies::reading::never && s.time_ms >= y.until_ms;
  });
  s.yields = yields_;
  s.disabled = disabled_;
}

void orders::look(std::int64_t now_ms) {
  std::vector<waiting> ready;
  {
    std::lock_guard lock(guard_);
    std::erase_if(waiting_, [&](waiting& w) {
      const bool ordered = std::any_of(yields_.begin(), yields_.end(),
                                       [&](const auto& y) { return y.device == w.name; });
      if (ours_on(*w.device) > 0 && ordered && now_ms < w.until_ms) return false;
      ready.push_back(std::move(w));
      return true;
    });
  }
  // Outside the lock: a driver may take its time.
  for (waiting& w : ready) {
    const std::uint64_t left = ours_on(*w.device);
    if (left == 0) w.device->trim();  // what is kept for later is not free yet
    w.tell({left == 0, left > 0 ? left : w.before_bytes, w.device->driver_used_bytes()});
  }
}

}  // namespace terrane::daemon
