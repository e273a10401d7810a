#include "daemon/lifetime/engine_start.hpp"

#include <algorithm>

#include "daemon/journal/log.hpp"

namespace terrane::daemon {

namespace {

class starting {
 public:
  starting(const config& c, const start_settings& settings) : config_(c), settings_(settings) {}

  result<started_engine> run() {
    result<std::unique_ptr<const engine::model>> model = engine::model::open(config_.model_file);
    if (!model) return tl::unexpected<error>(model.error());
    result<void> ok = open_devices();
    if (!ok) return tl::unexpected<error>(ok.error());
    result<std::uint32_t> first = first_device();
    if (!first) return tl::unexpected<error>(first.error());
    const engine::engine_options options = options_for(**model, *first);
    auto started = engine::inference_engine::start(std::move(*model), std::move(devices_), options,
                                                   settings_.progress);
    if (!started) return tl::unexpected<error>(started.error());
    out_.engine = std::move(*started);
    for (engine::device_candidate& c : engine::list_devices(device_settings()))
      if (!c.refused.empty()) out_.refused.push_back(std::move(c));
    return std::move(out_);
  }

 private:
  engine::device_settings device_settings() const {
    engine::device_settings s;
    s.cache_folder = settings_.cache_folder;
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
      if (!opened) return tl::unexpected<error>(opened.error());
      (*opened)->set_budget_bytes(d.budget_bytes);
      log(log_level::info, (*opened)->info().name + ": " + (*opened)->info().description);
      devices_.push_back(std::move(*opened));
    }
    return {};
  }

  // The one that all parts are on at the start.
  result<std::uint32_t> first_device() const {
    if (config_.start_on.empty()) return 0;
    for (std::uint32_t d = 0; d < devices_.size(); d++)
      if (config_.devices[d].name == config_.start_on ||
          devices_[d]->info().name == config_.start_on)
        return d;
    return fail(error_code::not_found, "start_on names '" + config_.start_on +
                                           "', which is not one of the devices");
  }

  engine::engine_options options_for(const engine::model& m, std::uint32_t first) const {
    engine::engine_options o;
    o.context_tokens = std::min(config_.context_tokens, m.config().context_tokens);
    if (o.context_tokens < config_.context_tokens && settings_.warn) {
      settings_.warn("context: " + std::to_string(config_.context_tokens) +
                     " tokens are more than the model was trained for; it has " +
                     std::to_string(o.context_tokens));
    }
    o.sessions = config_.sessions;
    o.rows = config_.rows;
    o.check_numbers = config_.check_numbers;
    o.placement.assign(m.parts().size(), first);
    return o;
  }

  const config& config_;
  const start_settings& settings_;
  std::vector<std::unique_ptr<engine::device>> devices_;
  started_engine out_;
};

}  // namespace

result<started_engine> start_engine(const config& c, const start_settings& settings) {
  return starting(c, settings).run();
}

}  // namespace terrane::daemon
