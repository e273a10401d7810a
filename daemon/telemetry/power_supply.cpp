// Whether the host runs on its battery, and how full that is: /sys/class/power_supply
// (Documentation/ABI/testing/sysfs-class-power). What feeds mice and headsets has the scope Device
// and is left out. A host without batteries but with a mains supply is on mains; one that
// lists neither gives no reading.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

class power_supply_source final : public telemetry_source {
 public:
  power_supply_source(const std::string& sys, std::int32_t period_ms)
      : folder_(sys + "/class/power_supply"), period_ms_(period_ms) {}
  std::string_view name() const override { return "power supply"; }

  void sample(policies::snapshot& s) override {
    supplies seen;
    std::error_code ignored;
    using iterator = std::filesystem::directory_iterator;
    for (iterator at(folder_, ignored); !ignored && at != iterator(); at.increment(ignored))
      look_at(at->path(), seen);
    if (seen.mains || seen.batteries > 0) {
      const bool on_battery = seen.discharging && !seen.mains_online;
      s.host.on_battery = {on_battery ? 1.0 : 0.0, s.time_ms, period_ms_};
    }
    if (seen.charged > 0)
      s.host.battery_ratio = {seen.charge / seen.charged, s.time_ms, period_ms_};
  }

 private:
  struct supplies {
    bool mains = false, mains_online = false, discharging = false;
    int batteries = 0, charged = 0;  // all, and those that tell their charge
    double charge = 0;               // sum of their shares
  };

  static std::string word_in(const std::filesystem::path& file) {
    std::string word;
    std::ifstream(file) >> word;
    return word;
  }

  static void look_at(const std::filesystem::path& supply, supplies& seen) {
    if (word_in(supply / "scope") == "Device") return;
    const std::string type = word_in(supply / "type");
    if (type == "Mains" || type == "USB") {
      seen.mains = true;
      seen.mains_online = seen.mains_online || word_in(supply / "online") == "1";
    }
    if (type != "Battery") return;
    seen.batteries++;
    seen.discharging = seen.discharging || word_in(supply / "status") == "Discharging";
    double percent = 0;
    if (std::ifstream(supply / "capacity") >> percent) {
      seen.charged++;
      seen.charge += std::clamp(percent / 100, 0.0, 1.0);
    }
  }

  std::filesystem::path folder_;
  std::int32_t period_ms_;
};

}  // namespace

std::unique_ptr<telemetry_source> make_power_supply_source(const std::string& sys,
                                                           std::int32_t period_ms) {
  return std::make_unique<power_supply_source>(sys, period_ms);
}

}  // namespace terrane::daemon
