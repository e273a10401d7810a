// How busy the processors are, with everybody's work and with that of other programs: /proc/stat
// and /proc/self/stat (proc(5)), each counted in ticks since some start. A share is of the time
// between two samples, so the first sample gives none.
#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

struct ticks {
  std::uint64_t busy = 0;   // of all processors, with everybody's work
  std::uint64_t total = 0;  // busy and idle
  std::uint64_t ours = 0;   // of this process, its threads included
};

class processors_source final : public telemetry_source {
 public:
  processors_source(const std::string& proc, std::int32_t period_ms)
      : proc_(proc), period_ms_(period_ms) {}
  std::string_view name() const override { return "processors"; }

  void sample(policies::snapshot& s) override {
    const std::optional<ticks> now = read();
    // A clock of ticks that stood still says nothing yet.
    if (now && last_ && now->total > last_->total) {
      const auto whole = static_cast<double>(now->total - last_->total);
      const double busy = since(now->busy, last_->busy), ours = since(now->ours, last_->ours);
      used_ = {std::min(1.0, busy / whole), s.time_ms, period_ms_};
      others_ = {std::clamp((busy - ours) / whole, 0.0, 1.0), s.time_ms, period_ms_};
    }
    if (now) last_ = now;
    s.host.cpu_used_ratio = used_;
    s.host.cpu_others_ratio = others_;
  }

 private:
  // Idle time may go back a little on some kernels (proc(5)).
  static double since(std::uint64_t now, std::uint64_t then) {
    return now > then ? static_cast<double>(now - then) : 0;
  }

  std::optional<ticks> read() const {
    ticks t;
    std::ifstream all(proc_ + "/stat");
    std::string cpu;
    std::array<std::uint64_t, 8> spent{};  // user nice system idle iowait irq softirq steal
    all >> cpu;
    for (std::uint64_t& one : spent) all >> one;
    if (!all || cpu != "cpu") return std::nullopt;
    for (std::size_t i = 0; i < spent.size(); i++) {
      t.total += spent[i];
      const bool idle = i == 3 || i == 4;
      if (!idle) t.busy += spent[i];
    }
    std::ifstream self(proc_ + "/self/stat");
    std::string line;
    std::getline(self, line);
    // The program's name, in brackets, may hold anything.
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream rest(line.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < 11; i++) rest >> skipped;  // state to cmajflt
    std::uint64_t user = 0, system = 0;
    if (!(rest >> user >> system)) return std::nullopt;
    t.ours = user + system;
    return t;
  }

  std::string proc_;
  std::int32_t period_ms_;
  std::optional<ticks> last_;
  policies::reading used_, others_;
};

}  // namespace

std::unique_ptr<telemetry_source> make_processors_source(const std::string& proc,
                                                         std::int32_t period_ms) {
  return std::make_unique<processors_source>(proc, period_ms);
}

}  // namespace terrane::daemon
