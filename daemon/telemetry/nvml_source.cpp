// Heat, power, use and memory of NVIDIA cards, as NVML gives them. A card is asked on a thread of
// its own: one whose driver does not answer holds up nobody, its readings keep the time of their
// question and grow stale. All devices of a card (CUDA, Vulkan) get its readings.
#include <algorithm>
#include <map>

#include "daemon/telemetry/background_query.hpp"
#include "daemon/telemetry/nvml/card.hpp"
#include "daemon/telemetry/source.hpp"

namespace terrane::daemon {

namespace {

using nvml::card_readings;
using policies::device_state;

// Silence after which an answer is called late, at least: the first question wakes the driver up.
constexpr std::int64_t shortest_silence_ms = 2000;

class nvml_source final : public telemetry_source {
 public:
  nvml_source(std::span<engine::device* const> devices, nvml_options options,
              std::int32_t period_ms)
      : devices_(devices),
        options_(std::move(options)),
        period_ms_(period_ms),
        library_(std::make_shared<nvml::shared_library>(options_.file.empty() ? nvml::library_name
                                                                              : options_.file)) {
    for (const engine::device* d : devices_) add(d->info());
  }
  std::string_view name() const override { return "NVML"; }
  std::string trouble() const override { return trouble_; }

  void sample(policies::snapshot& s) override {
    const auto deadline = std::chrono::steady_clock::now() + options_.patience;
    // Those that did not answer the last time are not waited for once more.
    for (card& c : cards_) c.asked = c.query.ask(s.time_ms);
    for (card& c : cards_)
      if (c.asked) c.query.wait_until(deadline);
    troubles_.clear();
    for (const card& c : cards_) take(c, s);
    trouble_ = troubles_.empty() ? std::string() : troubles_.front();
    for (std::size_t k = 1; k < troubles_.size(); k++) trouble_ += "; " + troubles_[k];
  }

 private:
  struct card {
    std::string uuid;
    bool nvidia = false;  // for certain: CUDA offers it
    background_query<card_readings> query;
    bool asked = false;  // in this sample
  };

  void add(const engine::device_info& d) {
    if (d.card.empty()) return;
    auto at =
        std::find_if(cards_.begin(), cards_.end(), [&](const card& c) { return c.uuid == d.card; });
    if (at == cards_.end()) {
      cards_.push_back(
          {d.card, false,
           background_query<card_readings>(
               [library = library_, uuid = d.card] { return nvml::read_card(*library, uuid); },
               options_.longest_end)});
      at = cards_.end() - 1;
    }
    at->nvidia = at->nvidia || d.kind == engine::device_kind::cuda;
  }

  void take(const card& c, policies::snapshot& s) {
    const std::optional<background_query<card_readings>::answer> a = c.query.latest();
    const std::optional<std::int64_t> since = c.query.waiting_since();
    const std::int64_t late =
        std::max(shortest_silence_ms, std::int64_t{policies::stale_periods} * period_ms_);
    if (since && s.time_ms - *since > late) {
      tell("the driver does not answer for card " + c.uuid + ": its readings are stale");
    } else if (a && !a->value.trouble.empty() && concerns(c, a->value)) {
      // One sentence for all cards about the library that they share.
      tell(a->value.no_library ? a->value.trouble : "card " + c.uuid + ": " + a->value.trouble);
    }
    if (!a) return;
    for (std::size_t d = 0; d < devices_.size() && d < s.devices.size(); d++)
      if (devices_[d]->info().card == c.uuid)
        put(a->value, a->asked_ms, *devices_[d], s.devices[d]);
  }

  // A card of another maker is none of NVML's business.
  static bool concerns(const card& c, const card_readings& r) {
    return c.nvidia || (!r.unknown && !r.no_library);
  }

  void tell(std::string what) {
    if (std::find(troubles_.begin(), troubles_.end(), what) == troubles_.end())
      troubles_.push_back(std::move(what));
  }

  // What is absent now keeps the time of the last answer that had it.
  void put(const card_readings& r, std::int64_t asked_ms, const engine::device& from,
           device_state& to) {
    device_state& kept = kept_[from.info().name];
    const auto set = [&](policies::reading device_state::*field,
                         const std::optional<double>& value) {
      if (value) kept.*field = {*value, asked_ms, period_ms_, name()};
      if ((kept.*field).present()) to.*field = kept.*field;
    };
    set(&device_state::temp_c, r.temp_c);
    set(&device_state::temp_limit_c, r.slowdown_c);
    set(&device_state::temp_shutdown_c, r.shutdown_c);
    set(&device_state::power_w, r.power_w);
    set(&device_state::power_limit_w, r.power_limit_w);
    set(&device_state::utilisation, r.utilisation);
    set(&device_state::throttled_by_heat, r.throttled_by_heat);
    set(&device_state::throttled_by_power, r.throttled_by_power);
    set(&device_state::fan_ratio, r.fan_ratio);
    if (from.lost()) return;  // what it held last says nothing of what could be put there
    // Under a budget the device is as large as the budget, and others' use does not count.
    if (from.budget_bytes() == 0 && r.memory_used_bytes)
      set(&device_state::vram_used,
          std::max(*r.memory_used_bytes, static_cast<double>(from.used_bytes())));
    set(&device_state::vram_others, of_others(r, from));
  }

  // As processes are told apart, if ours can be found among them: in a container of its own process
  // numbers it cannot, and then it holds less than we know we do.
  std::optional<double> of_others(const card_readings& r, const engine::device& on) const {
    double known = 0;
    for (const engine::device* d : devices_)
      if (d->info().card == on.info().card) known += static_cast<double>(d->used_bytes());
    const double told = r.process_bytes.value_or(0);
    if (r.other_process_bytes && told > 0 && told >= known) return r.other_process_bytes;
    if (!r.memory_used_bytes) return std::nullopt;
    return std::max(0.0, *r.memory_used_bytes - known);
  }

  std::span<engine::device* const> devices_;
  nvml_options options_;
  std::int32_t period_ms_;
  std::shared_ptr<nvml::shared_library> library_;
  std::vector<card> cards_;
  std::map<std::string, device_state> kept_;  // by device
  std::vector<std::string> troubles_;
  std::string trouble_;
};

}  // namespace

std::unique_ptr<telemetry_source> make_nvml_source(std::span<engine::device* const> devices,
                                                   nvml_options options, std::int32_t period_ms) {
  return std::make_unique<nvml_source>(devices, std::move(options), period_ms);
}

}  // namespace terrane::daemon
