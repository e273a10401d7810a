// Memory of each device: the daemon's own accounts, and what the driver says that everybody uses.
// Drivers of cards are asked on a thread of their own: one that does not answer holds up nobody,
// and what it said last grows stale.
#include <algorithm>

#include "daemon/telemetry/background_query.hpp"
#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

// That a sample has with drivers, all together; what they answer later is seen by the next.
constexpr std::chrono::milliseconds patience{50};

class device_memory_source final : public telemetry_source {
 public:
  device_memory_source(std::span<engine::device* const> devices,
                       std::vector<std::uint64_t> reserve_bytes, std::int32_t period_ms)
      : devices_(devices), reserve_bytes_(std::move(reserve_bytes)), period_ms_(period_ms) {
    for (const engine::device* d : devices_) {
      const auto used = [d] { return d->driver_used_bytes(); };
      // The device must outlive the question, so the source's end waits for the answer.
      drivers_.emplace_back(used, std::nullopt);
    }
  }

  std::string_view name() const override { return "device memory"; }

  void sample(policies::snapshot& s) override {
    ask(s.time_ms);
    for (std::size_t d = 0; d < s.devices.size() && d < devices_.size(); d++) {
      const engine::device& from = *devices_[d];
      if (from.lost()) continue;  // what it held last says nothing of what could be put there
      policies::device_state& to = s.devices[d];
      // Under a budget the device is as large as the budget; others' use counts only without one.
      const auto total = static_cast<double>(from.limit_bytes()),
                 ours = static_cast<double>(from.used_bytes());
      const bool bounded = from.budget_bytes() != 0;
      auto reading = [&](double value) { return policies::reading{value, s.time_ms, period_ms_}; };
      to.vram_total = reading(total);
      to.vram_ours = reading(ours);
      if (bounded) to.vram_used = reading(ours);
      if (const auto answer = drivers_[d].latest()) {
        const auto all = static_cast<double>(answer->value);
        auto told = [&](double value) {
          return policies::reading{value, answer->asked_ms, period_ms_};
        };
        if (!bounded) to.vram_used = told(std::max(ours, all));
        if (all > 0) to.vram_others = told(std::max(0.0, all - ours_on_card(from)));
      }
      if (reserve_bytes_[d] != 0)
        to.vram_reserved = reading(static_cast<double>(reserve_bytes_[d]));
    }
  }

 private:
  // Those that did not answer the last time are not waited for once more.
  void ask(std::int64_t now_ms) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::vector<background_query<std::uint64_t>*> asked;
    for (auto& driver : drivers_)
      if (driver.ask(now_ms)) asked.push_back(&driver);
    for (const auto* driver : asked) driver->wait_until(deadline);
  }

  // Two drivers may offer one card.
  double ours_on_card(const engine::device& of) const {
    std::uint64_t sum = 0;
    for (const engine::device* d : devices_) {
      const bool same = !of.info().card.empty() && d->info().card == of.info().card;
      if (d == &of || same) sum += d->used_bytes();
    }
    return static_cast<double>(sum);
  }

  std::span<engine::device* const> devices_;
  std::vector<std::uint64_t> reserve_bytes_;
  std::int32_t period_ms_;
  std::vector<background_query<std::uint64_t>> drivers_;  // of each device
};

}  // namespace

std::unique_ptr<telemetry_source> make_device_memory_source(
    std::span<engine::device* const> devices, std::vector<std::uint64_t> reserve_bytes,
    std::int32_t period_ms) {
  return std::make_unique<device_memory_source>(devices, std::move(reserve_bytes), period_ms);
}

}  // namespace terrane::daemon
