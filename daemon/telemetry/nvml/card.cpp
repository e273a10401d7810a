#include "daemon/telemetry/nvml/card.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <unistd.h>

namespace terrane::daemon::nvml {

namespace {

class reader {
 public:
  reader(const library& of, device card) : nvml_(of), card_(card) {}

  card_readings read() {
    read_memory();
    read_heat();
    read_power();
    read_use();
    read_processes();
    if (out_.trouble.empty() && !nvml_.lacking.empty())
      out_.trouble =
          "the driver's NVML lacks " + nvml_.lacking + ", so what these would tell is not known";
    return std::move(out_);
  }

 private:
  // Calls f(card, arguments...) if the library has it. True if what it gave can be used.
  template <class F, class... Arguments>
  bool ask(F* f, const char* what, Arguments... arguments) {
    if (f == nullptr || gone_) return false;
    const int r = f(card_, arguments...);
    if (r == success) return true;
    if (r == not_supported || r == no_data) return false;  // this card has no such thing
    gone_ = r == gpu_is_lost || r == reset_required;  // whatever else is asked gets that answer
    if (gone_)
      out_.trouble = "the card cannot be used any more, says the driver: " + nvml_.text_of(r);
    else if (out_.trouble.empty())
      out_.trouble = std::string(what) + " cannot be read: " + nvml_.text_of(r);
    return false;
  }

  template <class F, class... Arguments>
  std::optional<double> number(F* f, const char* what, double most, Arguments... arguments) {
    unsigned value = 0;
    if (!ask(f, what, arguments..., &value) || value > most) return std::nullopt;
    return value;
  }

  static std::optional<double> scaled(std::optional<double> value, double by) {
    return value ? std::optional(*value * by) : std::nullopt;
  }

  void read_memory() {
    memory_info m{};
    if (ask(nvml_.memory, "memory in use", &m) && m.used <= m.total)
      out_.memory_used_bytes = static_cast<double>(m.used);
  }

  void read_heat() {
    constexpr double most = 300;
    out_.temp_c = number(nvml_.temperature, "temperature", most, die_sensor);
    out_.slowdown_c =
        number(nvml_.temperature_threshold, "temperature limit", most, slow_threshold);
    out_.shutdown_c =
        number(nvml_.temperature_threshold, "temperature limit", most, shutdown_threshold);
    out_.fan_ratio = scaled(number(nvml_.fan_percent, "fan speed", 200), 0.01);
  }

  void read_power() {
    constexpr double most = 100e6;
    out_.power_w = scaled(number(nvml_.power_mw, "power", most), 1e-3);
    out_.power_limit_w = scaled(number(nvml_.power_limit_mw, "power limit", most), 1e-3);
  }

  void read_use() {
    utilisation_rates use{};
    if (ask(nvml_.utilisation, "utilisation", &use) && use.gpu <= 100)
      out_.utilisation = use.gpu / 100.0;
    unsigned long long why = 0;
    if (!ask(nvml_.throttle_reasons, "throttle reasons", &why)) return;
    bool heat = (why & (software_thermal | hardware_thermal)) != 0;
    bool power = (why & (software_power_cap | hardware_power_brake)) != 0;
    // Older cards say no more than that the hardware slowed itself down.
    if ((why & hardware_slowdown) != 0 && !heat && !power) {
      heat = out_.temp_c && out_.slowdown_c && *out_.temp_c >= *out_.slowdown_c;
      power = !heat;
    }
    out_.throttled_by_heat = heat ? 1 : 0;
    out_.throttled_by_power = power ? 1 : 0;
  }

  // False if the list cannot be had.
  bool add_processes(processes_of* list, std::map<unsigned, unsigned long long>& to) {
    if (list == nullptr || gone_) return false;
    constexpr unsigned most = 4096;
    int r = insufficient_size;  // processes come and go
    for (unsigned room = 64; r == insufficient_size && room <= most; room *= 8) {
      std::vector<process_info> found(room);
      unsigned count = room;
      r = list(card_, &count, found.data());
      if (r != success || count > room) continue;
      for (unsigned k = 0; k < count; k++) {
        unsigned long long& bytes = to[found[k].pid];
        bytes = std::max(bytes, found[k].used_bytes);  // who draws and computes is in both lists
      }
    }
    return r == success;
  }

  void read_processes() {
    std::map<unsigned, unsigned long long> bytes;
    if (!add_processes(nvml_.compute_processes, bytes)) return;
    if (!add_processes(nvml_.graphics_processes, bytes)) return;
    const auto self = static_cast<unsigned>(getpid());
    double ours = 0, others = 0;
    for (const auto& [pid, used] : bytes) {
      if (used == not_available) return;
      (pid == self ? ours : others) += static_cast<double>(used);
    }
    out_.process_bytes = ours;
    out_.other_process_bytes = others;
  }

  const library& nvml_;
  device card_;
  card_readings out_;
  bool gone_ = false;
};

card_readings refused(const library& nvml, const char* call, int r) {
  card_readings out;
  out.trouble = std::string(call) + " failed: " + nvml.text_of(r);
  if (r == version_mismatch)
    out.trouble += "; the driver was updated and the machine not started again since";
  return out;
}

}  // namespace

const result<library>& shared_library::get() {
  std::call_once(once_, [this] { opened_ = open_library(path_); });
  return *opened_;
}

int shared_library::start() {
  if (started_) return success;
  const int r = (*opened_)->init();
  started_ = r == success;
  return r;
}

card_readings read_card(shared_library& from, const std::string& uuid) {
  const result<library>& nvml = from.get();
  if (!nvml) {
    card_readings out;
    out.no_library = true;
    out.trouble = nvml.error().message;
    return out;
  }
  if (const int r = from.start(); r != success) return refused(*nvml, "nvmlInit_v2", r);
  device card = nullptr;
  int r = not_found;
  for (const char* kind : {"GPU-", "MIG-"}) {
    r = nvml->handle_by_uuid((kind + uuid).c_str(), &card);
    if (r != not_found && r != invalid_argument) break;
  }
  if (r == success) return reader(*nvml, card).read();
  card_readings out = refused(*nvml, "nvmlDeviceGetHandleByUUID", r);
  out.unknown = r == not_found || r == invalid_argument;
  return out;
}

}  // namespace terrane::daemon::nvml
