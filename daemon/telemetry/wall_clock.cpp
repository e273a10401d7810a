// The local time of day and the day of the week, for quiet hours. Policies see time in the snapshot
// only, so a recorded one decides the same at any hour.
#include <algorithm>
#include <ctime>

#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

class wall_clock_source final : public telemetry_source {
 public:
  wall_clock_source(local_clock now, std::int32_t period_ms)
      : now_(std::move(now)), period_ms_(period_ms) {}
  std::string_view name() const override { return "wall clock"; }

  void sample(policies::snapshot& s) override {
    const std::tm local = now_();
    const int seconds = local.tm_hour * 3600 + local.tm_min * 60 + std::min(local.tm_sec, 59);
    const int day = local.tm_wday == 0 ? 7 : local.tm_wday;  // tm begins the week on Sunday
    s.host.time_of_day_s = {static_cast<double>(seconds), s.time_ms, period_ms_};
    s.host.weekday = {static_cast<double>(day), s.time_ms, period_ms_};
  }

 private:
  local_clock now_;
  std::int32_t period_ms_;
};

}  // namespace

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  tzset();  // the host's zone may have been changed since; localtime_r need not look
  localtime_r(&now, &local);
  return local;
}

std::unique_ptr<telemetry_source> make_wall_clock_source(local_clock now, std::int32_t period_ms) {
  return std::make_unique<wall_clock_source>(std::move(now), period_ms);
}

}  // namespace terrane::daemon
