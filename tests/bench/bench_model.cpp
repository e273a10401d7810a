#include "tests/bench/bench_model.hpp"

#include <algorithm>
#include <cstdio>
#include <future>

#include "engine/placement/scratch.hpp"
#include "engine/session/logits_hash.hpp"
#include "engine/tuning/device_tuning.hpp"
#include "tests/bench/interpreter_device.hpp"

namespace terrane::bench {

double ms_between(steady_time a, steady_time b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

result<std::unique_ptr<engine::inference_engine>> open_model(const model_choice& choice,
                                                             const device_wrapper& wrap,
                                                             open_times* times) {
  result<std::unique_ptr<const engine::model>> model = engine::model::open(choice.path);
  if (!model) return tl::unexpected<error>(model.error());
  const steady_time begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<engine::device>> devices;
  for (const std::string& name : choice.devices) {
    engine::device_settings settings;
    settings.cpu_threads = choice.threads;
    settings.cache_folder = choice.cache_folder;
    result<std::unique_ptr<engine::device>> d =
        name == "interpreter" ? make_interpreter_device() : engine::open_device(name, settings);
    if (!d) return tl::unexpected<error>(d.error());
    devices.push_back(wrap ? wrap(std::move(*d), **model) : std::move(*d));
  }
  engine::engine_options options;
  options.rows = choice.rows;
  options.sessions = choice.sessions;
  options.context_tokens = choice.context_tokens;
  options.check_numbers = choice.check_numbers;
  options.attention_bytes = choice.attention_bytes;
  if (choice.rows == 0) {
    std::vector<engine::device*> all;
    for (const auto& d : devices) all.push_back(d.get());
    options.rows = engine::automatic_rows(all, **model, options);
  }
  options.tuning.cache_folder = choice.cache_folder;
  options.tuning.warn = [](const std::string& s) { std::fprintf(stderr, "%s\n", s.c_str()); };
  if (choice.tune) {
    options.tuning.again = true;
    options.tuning.budget = std::chrono::minutes(2);
  }
  const steady_time opened = std::chrono::steady_clock::now();
  auto started = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  if (times != nullptr)
    *times = {ms_between(begin, opened), ms_between(opened, std::chrono::steady_clock::now())};
  return started;
}

engine::move_request everything_to(const engine::inference_engine& e, std::uint32_t device) {
  engine::move_request r;
  r.by = "bench";
  for (engine::part_index p = 0; p < e.loaded_model().parts().size(); p++)
    r.parts.push_back({p, device});
  return r;
}

std::vector<engine::token_id> random_tokens(const engine::inference_engine& e, std::size_t count,
                                            std::uint64_t seed) {
  const std::uint32_t vocabulary = e.loaded_model().config().vocabulary;
  std::vector<engine::token_id> tokens;
  for (std::uint64_t i = 0; tokens.size() < count; i++) {
    const auto t = static_cast<engine::token_id>(mix_bits(seed * 1000003 + i) % vocabulary);
    if (!e.words().is_control(t)) tokens.push_back(t);
  }
  return tokens;
}

void recorder::on_token(const engine::token_event& token) {
  {
    std::lock_guard lock(guard_);
    if (times.size() == times.capacity()) {
      times.reserve(times.size() * 2 + 1024);
      hashes.reserve(times.size() * 2 + 1024);
      ids.reserve(times.size() * 2 + 1024);
    }
    times.push_back(std::chrono::steady_clock::now());
    hashes.push_back(token.logits_hash);
    ids.push_back(token.token);
    count_ = times.size();
  }
  changed_.notify_all();
  if (after_token) after_token(count_);
}

void recorder::on_end(const engine::reply_summary& summary) {
  std::lock_guard lock(guard_);
  summary_ = summary;
  ended_ = true;
  changed_.notify_all();
}

const engine::reply_summary& recorder::wait() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [this] { return ended_.load(); });
  return summary_;
}

void recorder::wait_for(std::size_t tokens) {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return ended_.load() || count_ >= tokens; });
}

engine::move_status move_and_wait(engine::inference_engine& e, engine::move_request request,
                                  const std::function<void()>& on_progress) {
  auto ended = std::make_shared<std::promise<engine::move_status>>();
  std::future<engine::move_status> last = ended->get_future();
  result<engine::move_id> id =
      e.move(std::move(request), [ended, &on_progress](const engine::move_status& s) {
        if (on_progress) on_progress();
        if (s.state != engine::move_state::waiting && s.state != engine::move_state::preparing)
          ended->set_value(s);
      });
  if (!id) {
    engine::move_status refused;
    refused.state = engine::move_state::failed;
    refused.failure = id.error();
    return refused;
  }
  return last.get();
}

std::uint64_t bytes_per_token(const engine::model& of, std::uint32_t context_tokens) {
  std::uint64_t bytes = 0;
  for (engine::part_index p = 0; p < of.parts().size(); p++)
    if (of.parts()[p].kind != engine::part_kind::embedding) bytes += of.part_bytes(p);
  for (std::uint32_t layer = 0; layer < of.config().layers; layer++) {
    const kernels::attention_shape a = of.config().attention_of(layer);
    const std::uint32_t keys = a.window == 0 ? context_tokens : std::min(a.window, context_tokens);
    bytes += std::uint64_t{keys} * a.kv_heads * a.head_size * 4;
  }
  return bytes;
}

boost::json::value describe(const engine::inference_engine& e) {
  const engine::model_config& c = e.loaded_model().config();
  boost::json::array devices;
  for (const engine::device* d : e.devices())
    devices.push_back({{"name", d->info().name}, {"description", d->info().description}});
  return {{"model", e.loaded_model().file().paths().front()},
          {"architecture", c.architecture},
          {"format", c.quantization},
          {"weight_bytes", e.loaded_model().weight_bytes()},
          {"devices", devices}};
}

boost::json::array tuning_of(engine::device& on) {
  boost::json::array all;
  for (const auto& [key, kernel] : on.tuning()->found())
    all.push_back({{"kernel", key},
                   {"default", engine::to_text(kernel.by_default)},
                   {"chosen", engine::difference(kernel.chosen, kernel.by_default)},
                   {"default_us", kernel.default_us},
                   {"gain", kernel.gain()}});
  return all;
}

}  // namespace terrane::bench
