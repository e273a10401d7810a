#include "tests/bench/profile.hpp"

#include <algorithm>
#include <map>

#include "kernels/lang/builder.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::bench {

namespace {

// What one kernel over one grid took, over all submissions.
struct kernel_time {
  std::string name;
  std::uint32_t groups_x = 0, groups_y = 0;
  int warps = 0;
  std::uint64_t count = 0;
  double ms = 0;
};

struct single_list {
  std::unique_ptr<engine::command_list> list;
  kernel_time* time = nullptr;
};

struct split_list final : engine::command_list {
  std::vector<single_list> singles;
};

class profiling_device final : public forwarding_device {
 public:
  explicit profiling_device(std::unique_ptr<engine::device> inner)
      : forwarding_device(std::move(inner)) {}

  result<const engine::device_kernel*> compile(const kernels::program& p) override {
    auto made = forwarding_device::compile(p);
    const std::lock_guard lock(guard_);
    if (made) programs_.emplace(*made, program_name{p.name, p.warps, kernels::fingerprint(p)});
    return made;
  }

  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override {
    auto split = std::make_unique<split_list>();
    split->launches = static_cast<std::uint32_t>(phases.size());
    for (const engine::dispatch& d : phases) {
      auto list = forwarding_device::record({&d, 1});
      if (!list) return list;
      split->singles.push_back({std::move(*list), &time_of(d)});
    }
    return split;
  }

  result<void> submit(engine::command_list& list) override {
    for (single_list& one : dynamic_cast<split_list&>(list).singles) {
      const steady_time begin = std::chrono::steady_clock::now();
      result<void> ok = inner().submit(*one.list);
      if (ok) ok = inner().wait();
      if (!ok) return ok;
      one.time->ms += ms_between(begin, std::chrono::steady_clock::now());
      one.time->count++;
    }
    return {};
  }

  void forget() {
    for (auto& [shape, time] : times_) time.ms = 0, time.count = 0;
  }

  std::vector<kernel_time> longest_first() const {
    std::vector<kernel_time> all;
    for (const auto& [shape, time] : times_)
      if (time.count > 0) all.push_back(time);
    std::ranges::sort(all, std::greater{}, &kernel_time::ms);
    return all;
  }

 private:
  struct program_name {
    std::string name;
    int warps = 0;
    std::uint64_t fingerprint = 0;
  };
  using key = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;

  kernel_time& time_of(const engine::dispatch& d) {
    const std::lock_guard lock(guard_);
    const program_name& p = programs_.at(d.kernel);
    kernel_time& t = times_[key{p.fingerprint, d.groups_x, d.groups_y}];
    t.name = p.name;
    t.warps = p.warps;
    t.groups_x = d.groups_x;
    t.groups_y = d.groups_y;
    return t;
  }

  std::mutex guard_;
  std::map<const engine::device_kernel*, program_name> programs_;
  std::map<key, kernel_time> times_;
};

// The median of submitting and waiting for a kernel that does nothing, in microseconds.
result<double> empty_us(engine::device& on) {
  kernels::builder b("empty", 1);
  auto kernel = on.compile(b.finish());
  if (!kernel) return tl::unexpected<error>(kernel.error());
  engine::dispatch d;
  d.kernel = *kernel;
  auto list = on.record({&d, 1});
  if (!list) return tl::unexpected<error>(list.error());
  std::vector<double> times;
  for (int i = 0; i < 101; i++) {
    const steady_time begin = std::chrono::steady_clock::now();
    result<void> ok = on.submit(**list);
    if (ok) ok = on.wait();
    if (!ok) return tl::unexpected<error>(ok.error());
    times.push_back(1000 * ms_between(begin, std::chrono::steady_clock::now()));
  }
  return quantile(times, 0.5);
}

boost::json::array to_json(const std::vector<kernel_time>& times) {
  boost::json::array all;
  for (const kernel_time& t : times)
    all.push_back({{"kernel", t.name},
                   {"groups_x", t.groups_x},
                   {"groups_y", t.groups_y},
                   {"warps", t.warps},
                   {"count", t.count},
                   {"us_each", 1000 * t.ms / static_cast<double>(t.count)},
                   {"ms", t.ms}});
  return all;
}

}  // namespace

result<boost::json::object> run_profile(const profile_options& options) {
  profiling_device* watched = nullptr;
  auto wrap = [&](std::unique_ptr<engine::device> d, const engine::model&) {
    auto made = std::make_unique<profiling_device>(std::move(d));
    watched = made.get();
    return made;
  };
  auto opened = open_model(options.model, wrap);
  if (!opened) return tl::unexpected<error>(opened.error());
  engine::inference_engine& e = **opened;
  auto reply = std::make_shared<recorder>();
  boost::json::array prefill;
  reply->after_token = [&](std::size_t tokens) {
    if (tokens != 1) return;
    prefill = to_json(watched->longest_first());
    watched->forget();
  };
  watched->forget();
  engine::generate_request request;
  request.prompt = random_tokens(e, options.prompt, 1);
  request.max_tokens = options.generate + 1;
  auto session = e.generate(request, reply);
  if (!session) return tl::unexpected<error>(session.error());
  const engine::reply_summary& end = reply->wait();
  if (end.failure) return tl::unexpected<error>(*end.failure);
  boost::json::array decode = to_json(watched->longest_first());
  result<double> empty = empty_us(*e.devices().front());
  if (!empty) return tl::unexpected<error>(empty.error());
  return boost::json::object{
      {"command", "profile"}, {"prompt", options.prompt},      {"generated", options.generate},
      {"empty_us", *empty},   {"prefill", std::move(prefill)}, {"decode", std::move(decode)},
      {"on", describe(e)}};
}

}  // namespace terrane::bench
