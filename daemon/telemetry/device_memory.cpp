// Memory of each device: the daemon's own accounts, and what the driver says that everybody uses.
#include <algorithm>

#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

class device_memory_source final : public telemetry_source {
 public:
  device_memory_source(std::span<engine::device* const> devices,
                       std::vector<std::uint64_t> reserve_bytes, std::int32_t period_ms)
      : devices_(devices), reserve_bytes_(std::move(reserve_bytes)), period_ms_(period_ms) {}

  std::string_view name() const override { return "device memory"; }

  void sample(policies::snapshot& s) override {
    for (std::size_t d = 0; d < s.devices.size() && d < devices_.size(); d++) {
      const engine::device& from = *devices_[d];
      if (from.lost()) continue;  // what it held last says nothing of what could be put there
      policies::device_state& to = s.devices[d];
      // Under a budget the device is as large as the budget; others' use counts only without one.
      const auto total = static_cast<double>(from.limit_bytes()),
                 ours = static_cast<double>(from.used_bytes());
      const bool bounded = from.budget_bytes() != 0;
      const auto all = static_cast<double>(from.driver_used_bytes());
      const double driver = bounded ? 0 : all;
      auto reading = [&](double value) { return policies::reading{value, s.time_ms, period_ms_}; };
      to.vram_total = reading(total);
      to.vram_ours = reading(ours);
      to.vram_used = reading(std::max(ours, driver));
      if (all > 0) to.vram_others = reading(std::max(0.0, all - ours_on_card(from)));
      if (reserve_bytes_[d] != 0)
        to.vram_reserved = reading(static_cast<double>(reserve_bytes_[d]));
    }
  }

 private:
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
};

}  // namespace

std::unique_ptr<telemetry_source> make_device_memory_source(
    std::span<engine::device* const> devices, std::vector<std::uint64_t> reserve_bytes,
    std::int32_t period_ms) {
  return std::make_unique<device_memory_source>(devices, std::move(reserve_bytes), period_ms);
}

}  // namespace terrane::daemon
