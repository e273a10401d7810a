#include "daemon/loop/orders.hpp"

#include <algorithm>

namespace terrane::daemon {

namespace {

std::uint64_t ours_on(const engine::device& d) {
  return d.used_bytes(engine::memory_use::weights) + d.used_bytes(engine::memory_use::kv) +
         d.used_bytes(engine::memory_use::scratch);
}

bool is_over(const policies::yield_order& y, std::int64_t now_ms) {
  return y.until_ms != policies::reading::never && now_ms >= y.until_ms;
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

std::vector<policies::yield_order> orders::yields(std::int64_t now_ms) const {
  std::lock_guard lock(guard_);
  std::vector<policies::yield_order> in_force = yields_;
  std::erase_if(in_force, [&](const auto& y) { return is_over(y, now_ms); });
  return in_force;
}

std::uint64_t orders::yield(policies::yield_order order, const engine::device& device) {
  std::lock_guard lock(guard_);
  std::erase_if(yields_, [&](const auto& y) { return y.device == order.device; });
  yields_.push_back(std::move(order));
  return ours_on(device);
}

void orders::await(engine::device& device, std::uint64_t before_bytes, std::int64_t until_ms,
                   std::int64_t over_ms, told tell) {
  std::lock_guard lock(guard_);
  waiting_.push_back(
      {device.info().name, &device, before_bytes, until_ms, over_ms, std::move(tell)});
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

void orders::put_into(policies::snapshot& s, std::int64_t now_ms) {
  std::lock_guard lock(guard_);
  std::erase_if(yields_, [&](const auto& y) { return is_over(y, now_ms); });
  s.yields = yields_;
  s.disabled = disabled_;
}

void orders::look(std::int64_t now_ms) {
  struct looked_at {
    waiting of;
    yield_progress progress;
    std::uint64_t left_bytes;
  };
  std::vector<looked_at> found;
  {
    std::lock_guard lock(guard_);
    std::erase_if(waiting_, [&](const waiting& w) {
      const bool ordered = std::any_of(yields_.begin(), yields_.end(),
                                       [&](const auto& y) { return y.device == w.name; });
      const std::uint64_t left = ours_on(*w.device);
      const bool over = w.over_ms != policies::reading::never && now_ms >= w.over_ms;
      const yield_progress progress = left == 0              ? yield_progress::freed
                                      : !ordered && over     ? yield_progress::ran_out
                                      : !ordered             ? yield_progress::ended
                                      : now_ms >= w.until_ms ? yield_progress::stays
                                                             : yield_progress::leaving;
      found.push_back({w, progress, left});
      return progress != yield_progress::leaving;
    });
  }
  // Outside the lock: a driver may take its time.
  for (const looked_at& one : found) {
    if (one.progress != yield_progress::freed) {
      one.of.tell({one.progress, one.left_bytes, 0});
      continue;
    }
    one.of.device->trim();  // what is kept for later is not free yet
    one.of.tell({one.progress, one.of.before_bytes, one.of.device->driver_used_bytes()});
  }
}

}  // namespace terrane::daemon
