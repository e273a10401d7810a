#include "daemon/lifetime/engine_start.hpp"

#include <algorithm>
#include <string_view>
#include <thread>

#include "daemon/journal/log.hpp"
#include "daemon/lifetime/wake_up.hpp"
#include "daemon/loop/snapshot_builder.hpp"
#include "daemon/placement/refuge_plan.hpp"
#include "daemon/telemetry/listing.hpp"
#include "engine/placement/scratch.hpp"
#include "policies/placement/fit.hpp"

namespace terrane::daemon {

namespace {

// What timing kernels may add to the first start, all devices together.
constexpr std::chrono::milliseconds first_tuning{1500};

class starting {
 public:
  starting(const config& c, const start_settings& settings) : config_(c), settings_(settings) {}

  result<started_engine> run() {
    result<std::unique_ptr<const engine::model>> model = engine::model::open(config_.model_file);
    if (!model) return tl::unexpected<error>(model.error());
    result<void> ok = open_devices();
    if (!ok) return tl::unexpected<error>(ok.error());
    engine::engine_options options = options_for(**model);
    ok = place(**model, options);
    if (!ok) return tl::unexpected<error>(ok.error());
    replace_lost(**model, options);
    auto started = engine::inference_engine::start(std::move(*model), std::move(devices_), options,
                                                   settings_.progress);
    if (!started) return tl::unexpected<error>(started.error());
    out_.engine = std::move(*started);
    list_refused();
    list_paths();
    return std::move(out_);
  }

  result<std::string> fit(bool json) {
    namespace placement = policies::placement;
    result<std::unique_ptr<const engine::model>> model = engine::model::open(config_.model_file);
    if (!model) return tl::unexpected<error>(model.error());
    result<void> ok = open_devices();
    if (!ok) return tl::unexpected<error>(ok.error());
    const engine::engine_options options = options_for(**model);
    const placement::request asked =
        make_request(**model, look_at(devices_, out_.devices, **model, options), options,
                     available_host_bytes());
    const auto answer = placement::fit(asked, (*model)->config().context_tokens,
                                       at_context(devices_, **model, options));
    if (!answer) return fail(error_code::invalid_input, answer.error().message);
    return json ? placement::to_json(asked, *answer) + "\n" : placement::to_text(asked, *answer);
  }

  result<std::string> telemetry(const nvml_options& nvml, bool json) {
    self_test_ = false;  // they compute nothing
    result<void> ok = open_devices();
    if (!ok) return tl::unexpected<error>(ok.error());
    const std::vector<engine::device*> devices = device_pointers();
    const telemetry_sources sources = make_sources(config_, out_.devices, devices, nvml);
    policies::snapshot s;
    // Shares of time, such as how busy processors are, are of the time between two samples.
    for (int sample = 0; sample < 2; sample++) {
      if (sample != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      s = {};
      s.time_ms = steady_ms();
      for (const engine::device* d : devices) s.devices.push_back(state_of(d->info()));
      sample_all(sources, s);
    }
    return json ? readings_json(s, sources) + "\n" : readings_text(s, sources);
  }

 private:
  struct refusal {
    std::string configured;  // its name in the configuration
    engine::device_candidate device;
  };

  engine::device_settings device_settings() const {
    engine::device_settings s;
    s.cache_folder = settings_.cache_folder;
    s.self_test = self_test_;
    return s;
  }

  result<void> open_devices() {
    for (const device_config& d : config_.devices) {
      // A device may compile for seconds before it can be used.
      if (settings_.progress && !settings_.progress(0, 1))
        return fail(error_code::cancelled, "the start was given up");
      engine::device_settings settings = device_settings();
      settings.cpu_threads = d.threads;
      result<std::unique_ptr<engine::device>> opened = settings_.open_device(d.name, settings);
      if (!opened) {
        refuse(d, opened.error());
      } else if (is_open((*opened)->info().name)) {
        refuse(d, {error_code::conflict, "it is in the list of devices twice", d.name});
      } else {
        (*opened)->set_budget_bytes(d.budget_bytes);
        log(log_level::info, (*opened)->info().name + ": " + (*opened)->info().description);
        devices_.push_back(std::move(*opened));
        out_.devices.push_back(d);
      }
    }
    if (!devices_.empty()) return {};
    std::string all;
    for (const refusal& r : refused_)
      all += (all.empty() ? "" : "; ") + r.device.info.name + ": " + r.device.refused;
    return fail(error_code::unsupported, "none can be used: " + all, "devices");
  }

  // A device that cannot be used is left out, alone.
  void refuse(const device_config& d, const error& why) {
    refusal r;
    r.configured = d.name;
    // Of a kind alone, the error may name the very device.
    r.device.info.name = why.where.starts_with(d.name + ":") ? why.where : d.name;
    for (engine::device_kind kind : {engine::device_kind::vulkan, engine::device_kind::cuda})
      if (d.name.starts_with(engine::to_string(kind))) r.device.info.kind = kind;
    r.device.refused = why.message;
    if (settings_.warn)
      settings_.warn("device " + r.device.info.name + " is left out: " + why.message);
    refused_.push_back(std::move(r));
  }

  bool is_open(const std::string& name) const {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](const auto& d) { return d->info().name == name; });
  }

  result<void> place(const engine::model& m, engine::engine_options& options) {
    if (config_.start_on == automatic_start) return place_automatically(m, options);
    result<std::uint32_t> first = first_device();
    if (!first) return tl::unexpected<error>(first.error());
    options.placement.assign(m.parts().size(), *first);
    return {};
  }

  // What the engine asks and tells when a device is lost. Model and devices will be the engine's.
  void replace_lost(const engine::model& m, engine::engine_options& options) {
    std::vector<engine::device*> devices;
    for (const auto& d : devices_) devices.push_back(d.get());
    if (facts_.empty()) facts_ = facts_of(devices_, out_.devices, m, options);
    const auto plan = std::make_shared<const refuge_plan>(m, devices, facts_, options);
    options.choose_refuge = [plan](const engine::lost_placement& from) {
      return plan->choose(from);
    };
    options.on_refuge = [plan, told = settings_.on_refuge](const engine::refuge_report& report) {
      if (told) told(report, plan->sentence(report));
    };
  }

  result<void> place_automatically(const engine::model& m, engine::engine_options& options) {
    facts_ = look_at(devices_, out_.devices, m, options);
    result<load_plan> planned = plan_load(m, facts_, options, available_host_bytes());
    if (!planned) return tl::unexpected<error>(planned.error());
    options.placement = planned->answer.where;
    for (std::size_t d = 0; d < devices_.size(); d++) {
      const policies::placement::device_note& note = planned->answer.notes[d];
      const std::string& name = devices_[d]->info().name;
      const std::string text = "automatic placement: " + name + ": " + note.reason;
      if (note.used || !settings_.warn)
        log(log_level::info, text, {{"TERRANE_DEVICE", name}});
      else
        settings_.warn(text);
    }
    out_.planned = std::move(*planned);
    return {};
  }

  // The one that all parts are on at the start. Who names one means that one: with its parts
  // elsewhere the model might not fit, or be slower than anybody would wait for.
  result<std::uint32_t> first_device() const {
    const std::string& wanted = config_.start_on;
    if (wanted.empty()) return 0;
    for (std::uint32_t d = 0; d < devices_.size(); d++) {
      const std::string& name = devices_[d]->info().name;
      if (out_.devices[d].name == wanted || names_device(wanted, name)) return d;
    }
    for (const refusal& r : refused_) {
      if (r.configured != wanted && r.device.info.name != wanted) continue;
      return fail(error_code::unsupported,
                  "'" + wanted + "' cannot be used: " + r.device.refused +
                      ". Name another device, or leave start_on out to begin on the first that can",
                  "start_on");
    }
    return fail(error_code::not_found, "'" + wanted + "' is not one of the devices", "start_on");
  }

  // Two cards of one driver that cannot reach each other directly are worth a word.
  void list_paths() {
    out_.paths = engine::find_paths(out_.engine->devices());
    for (const engine::copy_path& p : out_.paths) {
      if (p.no_direct.empty() || !settings_.warn) continue;
      settings_.warn("copies from " + out_.engine->devices()[p.from]->info().name + " to " +
                     out_.engine->devices()[p.to]->info().name +
                     " pass through the host's memory: " + p.no_direct);
    }
  }

  // What `terranectl devices` shows beside those in use: refused ones of the configuration, then of
  // the machine.
  void list_refused() {
    std::vector<engine::device_candidate> machine = engine::list_devices(device_settings());
    for (refusal& r : refused_) {
      for (const engine::device_candidate& c : machine)
        if (c.info.name == r.device.info.name) r.device.info = c.info;
      // The same device under another name is in use.
      if (!is_used(r.device.info.name)) out_.refused.push_back(std::move(r.device));
    }
    for (engine::device_candidate& c : machine) {
      const bool listed = std::any_of(out_.refused.begin(), out_.refused.end(),
                                      [&](const auto& r) { return r.info.name == c.info.name; });
      if (!c.refused.empty() && !listed) out_.refused.push_back(std::move(c));
    }
  }

  bool is_used(const std::string& name) const {
    const auto used = out_.engine->devices();
    return std::any_of(used.begin(), used.end(),
                       [&](const engine::device* d) { return names_device(name, d->info().name); });
  }

  std::vector<engine::device*> device_pointers() const {
    std::vector<engine::device*> all;
    for (const auto& d : devices_) all.push_back(d.get());
    return all;
  }

  engine::engine_options options_for(const engine::model& m) {
    engine::engine_options o;
    o.context_tokens = std::min(config_.context_tokens, m.config().context_tokens);
    if (o.context_tokens < config_.context_tokens && settings_.warn) {
      settings_.warn("context: " + std::to_string(config_.context_tokens) +
                     " tokens are more than the model was trained for; it has " +
                     std::to_string(o.context_tokens));
    }
    o.sessions = config_.sessions;
    o.rows = config_.rows != 0 ? config_.rows : engine::automatic_rows(device_pointers(), m, o);
    o.check_numbers = config_.check_numbers;
    o.on_session = settings_.on_session;
    o.tuning.cache_folder = settings_.cache_folder;
    if (config_.tune_at_first_use) o.tuning.budget = first_tuning;
    o.tuning.warn = settings_.warn;
    o.tuning.progress = [this](const engine::tuning_progress& p) {
      if (p.done == 0 && told_tuning_of_ != p.device)
        log(log_level::info,
            p.device + ": its kernels are timed, once (tune: off leaves that out)");
      told_tuning_of_ = p.device;
      return !settings_.progress || settings_.progress(0, 1);
    };
    return o;
  }

  const config& config_;
  const start_settings& settings_;
  std::vector<std::unique_ptr<engine::device>> devices_;
  std::vector<refusal> refused_;
  std::vector<device_facts> facts_;  // of devices_
  bool self_test_ = true;
  std::string told_tuning_of_;  // the device
  started_engine out_;
};

}  // namespace

result<started_engine> start_engine(const config& c, const start_settings& settings) {
  return starting(c, settings).run();
}

result<std::string> describe_fit(const config& c, const start_settings& settings, bool json) {
  return starting(c, settings).fit(json);
}

result<std::string> describe_telemetry(const config& c, const start_settings& settings,
                                       const nvml_options& nvml, bool json) {
  return starting(c, settings).telemetry(nvml, json);
}

}  // namespace terrane::daemon
