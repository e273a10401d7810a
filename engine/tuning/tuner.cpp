#include "engine/tuning/tuner.hpp"

#include <algorithm>
#include <optional>

#include "engine/device/compile_all.hpp"
#include "engine/tuning/candidates.hpp"
#include "engine/tuning/kernel_trial.hpp"
#include "engine/tuning/synthetic.hpp"
#include "engine/tuning/tuning_file.hpp"

namespace terrane::engine {

namespace {

using steady_time = std::chrono::steady_clock::time_point;

constexpr double clear_gain = 1.03;  // the default takes so many times as long
constexpr int rounds_to_find = 5, rounds_to_confirm = 9, least_wins = 7;
// A timed list takes about this long: far longer than to submit it and to wait.
constexpr double list_us = 1000, longest_list_us = 3000;
constexpr std::uint32_t most_launches = 64;

// One layout that is tried.
struct contestant {
  kernel_layout layout;
  const device_kernel* kernel = nullptr;
  std::unique_ptr<command_list> list;
  std::vector<double> us;  // of a launch
  double median() const {
    std::vector<double> sorted = us;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

// The contest of one kernel's layouts.
class contest {
 public:
  contest(device& on, const kernel_shape& shape, kernel_trial& trial,
          const tuner_settings& settings, std::function<bool()> in_time)
      : device_(on),
        shape_(shape),
        trial_(trial),
        settings_(settings),
        in_time_(std::move(in_time)) {}

  // The winner's layout, and both medians. Fails when the default itself cannot be run.
  result<tuned_kernel> run(const kernel_layout& by_default) {
    contestant usual{by_default, nullptr, nullptr, {}};
    result<void> ok = enter(usual);
    if (ok) ok = find_scale(usual);
    if (!ok) return tl::unexpected<error>(ok.error());
    tuned_kernel out;
    out.by_default = out.chosen = by_default;
    contestant best{by_default, usual.kernel, nullptr, {}};
    for (int round = 0; in_time_(); round++) {
      const std::vector<kernel_layout> varied =
          candidates(device_.info(), shape_, best.layout, round);
      if (varied.empty() && round > 0) break;
      ok = hold_round(best, varied);
      if (!ok) return tl::unexpected<error>(ok.error());
    }
    ok = confirm(usual, best, out);
    if (!ok) return tl::unexpected<error>(ok.error());
    return out;
  }

 private:
  result<void> enter(contestant& c) {
    if (c.kernel == nullptr) {
      result<const device_kernel*> kernel = device_.compile(trial_.program(c.layout));
      if (!kernel) return tl::unexpected<error>(kernel.error());
      c.kernel = *kernel;
    }
    result<std::unique_ptr<command_list>> list = trial_.record(c.layout, c.kernel);
    if (!list) return tl::unexpected<error>(list.error());
    c.list = std::move(*list);
    return {};
  }

  result<double> time(contestant& c) {
    const steady_time begin = settings_.now();
    result<void> ok = device_.submit(*c.list);
    if (ok) ok = device_.wait();
    if (!ok) return tl::unexpected<error>(ok.error());
    const double us = std::chrono::duration<double, std::micro>(settings_.now() - begin).count() /
                      trial_.launches();
    c.us.push_back(us);
    return us;
  }

  // How many launches, or how much of one, a timed list has.
  result<void> find_scale(contestant& usual) {
    double us = 0;
    for (int i = 0; i < 3; i++) {
      result<double> once = time(usual);
      if (!once) return tl::unexpected<error>(once.error());
      us = i == 0 ? *once : std::min(us, *once);
    }
    usual.us.clear();
    if (us > longest_list_us)
      trial_.run_share(longest_list_us / us);
    else
      trial_.set_launches(static_cast<std::uint32_t>(
          std::clamp(list_us / std::max(us, 0.1), 1.0, double{most_launches})));
    result<void> ok = enter(usual);
    if (!ok) return ok;
    result<std::vector<std::byte>> output = trial_.output(usual.layout, usual.kernel);
    if (!output) return tl::unexpected<error>(output.error());
    expected_ = std::move(*output);
    return {};
  }

  // Whether a candidate may take part: it compiles here, and gives the default's bits.
  bool may_take_part(contestant& c) {
    if (result<void> ok = enter(c); !ok) return false;  // more than the device offers
    result<std::vector<std::byte>> output = trial_.output(c.layout, c.kernel);
    if (!output) return false;
    if (*output == expected_) return true;
    if (settings_.warn)
      settings_.warn(device_.info().name + ": " + tuning_key(shape_, device_.info()) + " with " +
                     to_text(c.layout) +
                     " gives other bits than by default, and is not used; this is a fault of "
                     "Terrane or of the driver");
    return false;
  }

  // Candidates against the best so far, in turn.
  result<void> hold_round(contestant& best, const std::vector<kernel_layout>& varied) {
    std::vector<kernels::program> programs;
    std::vector<contestant> entered;
    for (const kernel_layout& l : varied) {
      if (l == best.layout) continue;
      programs.push_back(trial_.program(l));
      entered.push_back({l, nullptr, nullptr, {}});
    }
    // Side by side; what fails here is seen again below.
    static_cast<void>(compile_all(device_, programs));
    std::erase_if(entered, [&](contestant& c) { return !in_time_() || !may_take_part(c); });
    std::erase_if(entered, [&](const contestant& c) { return is_same(c, best); });
    if (entered.empty()) return {};
    best.us.clear();
    result<void> ok = enter(best);
    for (int i = 0; ok && i < rounds_to_find; i++) {
      ok = time_once(best);
      for (contestant& c : entered)
        if (ok) ok = time_once(c);
    }
    if (!ok) return ok;
    const auto fastest =
        std::ranges::min_element(entered, {}, [](const contestant& c) { return c.median(); });
    if (best.median() > clear_gain * fastest->median()) best = std::move(*fastest);
    return {};
  }

  // The same code in the same order: some formats heed only some of a layout's fields.
  static bool is_same(const contestant& a, const contestant& b) {
    const auto* x = std::get_if<linear_layout>(&a.layout);
    const auto* y = std::get_if<linear_layout>(&b.layout);
    return a.kernel == b.kernel && (x == nullptr || x->order == y->order);
  }

  result<void> time_once(contestant& c) {
    result<double> us = time(c);
    return us ? result<void>() : tl::unexpected<error>(us.error());
  }

  // The winner against the default once more: the fastest of several is partly the luckiest.
  result<void> confirm(contestant& usual, contestant& best, tuned_kernel& out) {
    const bool is_usual = best.layout == usual.layout;
    result<void> ok = is_usual ? result<void>() : enter(best);
    usual.us.clear();
    best.us.clear();
    int wins = 0;
    for (int i = 0; ok && i < (is_usual ? rounds_to_find : rounds_to_confirm); i++) {
      ok = time_once(usual);
      if (ok && !is_usual) ok = time_once(best);
      if (ok && !is_usual && best.us.back() < usual.us.back()) wins++;
    }
    if (!ok) return ok;
    out.default_us = out.chosen_us = usual.median();
    if (is_usual || wins < least_wins || usual.median() <= clear_gain * best.median()) return {};
    out.chosen = best.layout;
    out.chosen_us = best.median();
    return {};
  }

  device& device_;
  const kernel_shape& shape_;
  kernel_trial& trial_;
  const tuner_settings& settings_;
  std::function<bool()> in_time_;
  std::vector<std::byte> expected_;
};

// About how much a step does in the kernel: what is worth most is timed first.
std::uint64_t work_of(const kernel_use& use) {
  if (const auto* linear = std::get_if<kernels::linear_spec>(&use.shape.what)) {
    std::uint64_t n = 0;
    for (const kernels::linear_matrix& m : linear->matrices) n += m.n;
    return use.times * linear->k * n;
  }
  if (const auto* a = std::get_if<kernels::attention_shape>(&use.shape.what))
    return use.times * a->heads * a->head_size * 1024;
  return use.times * std::get<kernels::activation_spec>(use.shape.what).k * 8;
}

class tuner {
 public:
  tuner(device& on, std::span<const kernel_use> uses, const tuner_settings& settings)
      : device_(on), settings_(settings), begin_(settings.now()), tuning_(*on.tuning()) {
    for (const kernel_use& use : uses) add(use);
  }

  tuning_report run() {
    recall();
    if (settings_.budget && !missing_.empty()) time_missing();
    device_.use_tuning(std::make_shared<const device_tuning>(std::move(tuning_)));
    return report_;
  }

 private:
  struct wanted {
    kernel_use use;
    std::string key;
  };

  void add(const kernel_use& use) {
    const kernel_layout usual = tuning_.default_layout(use.shape);
    if (candidates(device_.info(), use.shape, usual, 0).empty() &&
        candidates(device_.info(), use.shape, usual, 1).empty())
      return;  // there is nothing to choose
    std::string key = tuning_key(use.shape, device_.info());
    for (wanted& w : missing_) {
      if (w.key != key) continue;
      w.use.times += use.times;
      return;
    }
    missing_.push_back({use, std::move(key)});
  }

  // What was found earlier and still holds.
  void recall() {
    if (settings_.again) return;
    const tuned_kernels remembered = remembered_kernels(settings_.cache_folder, device_.info());
    std::erase_if(missing_, [&](const wanted& w) {
      const auto known = remembered.find(w.key);
      if (known == remembered.end() || !holds(w, known->second)) return false;
      tuning_.set(w.use.shape, known->second);
      report_.remembered++;
      return true;
    });
  }

  bool holds(const wanted& w, const tuned_kernel& known) const {
    const kernel_layout usual = tuning_.default_layout(w.use.shape);
    if (known.by_default != usual || known.version != version_of(w.use.shape, usual)) return false;
    const auto* shape = std::get_if<kernels::attention_shape>(&w.use.shape.what);
    if (shape == nullptr) return true;
    const int warps = std::get<kernels::attention_tuning>(known.chosen).warps;
    return warps == 1 || warps == kernels::attention_warps(*shape);
  }

  static std::uint64_t version_of(const kernel_shape& shape, const kernel_layout& usual) {
    if (const auto* linear = std::get_if<kernels::linear_spec>(&shape.what))
      return program_version(
          kernels::linear(laid_out(*linear, std::get<linear_layout>(usual), shape.rows)));
    if (const auto* attention = std::get_if<kernels::attention_shape>(&shape.what))
      return program_version(
          kernels::attention_partial(*attention, std::get<kernels::attention_tuning>(usual)));
    return program_version(kernels::activation(laid_out(
        std::get<kernels::activation_spec>(shape.what), std::get<activation_layout>(usual))));
  }

  void time_missing() {
    std::ranges::stable_sort(missing_, std::greater{},
                             [](const wanted& w) { return work_of(w.use); });
    tuned_kernels found;
    for (std::size_t k = 0; k < missing_.size(); k++) {
      if (!tell(k)) break;
      const wanted& w = missing_[k];
      result<tuned_kernel> kernel = time_or_leave(w);
      if (report_.given_up) break;  // half-way
      if (!kernel) {
        warn("kernels could not be timed: " + kernel.error().message);
        break;
      }
      tuning_.set(w.use.shape, *kernel);
      found.insert_or_assign(w.key, *kernel);
    }
    if (!report_.given_up) tell(missing_.size());
    if (!found.empty()) remember_kernels(settings_.cache_folder, device_.info(), found);
  }

  result<tuned_kernel> time_or_leave(const wanted& w) {
    tuned_kernel usual;
    usual.by_default = usual.chosen = tuning_.default_layout(w.use.shape);
    usual.version = version_of(w.use.shape, usual.by_default);
    // A kernel is begun only if the longest so far would be done in time.
    if (spent() + longest_ >= *settings_.budget) {
      report_.left++;
      return usual;
    }
    const steady_time begin = settings_.now();
    if (result<void> ok = make_read_over(); !ok) return tl::unexpected<error>(ok.error());
    result<std::unique_ptr<kernel_trial>> trial =
        kernel_trial::make(device_, w.use.shape, *read_over_);
    if (!trial) return tl::unexpected<error>(trial.error());
    result<tuned_kernel> timed = contest(device_, w.use.shape, **trial, settings_, [this] {
                                   return spent() < *settings_.budget && wanted_still();
                                 }).run(usual.by_default);
    if (!timed) return timed;
    longest_ = std::max(longest_, settings_.now() - begin);
    timed->version = usual.version;
    report_.timed++;
    return timed;
  }

  std::chrono::steady_clock::duration spent() const { return settings_.now() - begin_; }

  // As large as what a step would read, if there is room; the smallest will do.
  result<void> make_read_over() {
    if (read_over_ != nullptr) return {};
    const std::uint64_t limit = device_.limit_bytes(), used = device_.used_bytes();
    const std::uint64_t free = limit > used ? limit - used : 0;
    const std::size_t bytes = std::min<std::uint64_t>(settings_.read_over_bytes, free / 4);
    auto made = device_.allocate(std::max<std::size_t>(bytes, 4096), memory_use::staging);
    if (!made) return tl::unexpected<error>(made.error());
    const std::vector<std::byte> piece(std::size_t{4} << 20, plain_byte);
    for (std::size_t at = 0; at < (*made)->bytes(); at += piece.size()) {
      const std::size_t n = std::min(piece.size(), (*made)->bytes() - at);
      result<void> ok = device_.write(**made, at, std::span(piece).first(n));
      if (!ok) return ok;
    }
    read_over_ = std::move(*made);
    return {};
  }

  bool tell(std::size_t done) {
    done_ = done;
    if (settings_.progress &&
        !settings_.progress({device_.info().name, done, missing_.size(),
                             done < missing_.size() ? missing_[done].key : ""}))
      report_.given_up = true;
    return !report_.given_up;
  }
  // Asked between candidates.
  bool wanted_still() { return tell(done_); }

  void warn(const std::string& what) const {
    if (settings_.warn) settings_.warn(device_.info().name + ": " + what);
  }

  device& device_;
  const tuner_settings& settings_;
  steady_time begin_;
  device_tuning tuning_;
  std::vector<wanted> missing_;
  std::unique_ptr<device_memory> read_over_;  // made before the first kernel is timed
  std::size_t done_ = 0;
  std::chrono::steady_clock::duration longest_{0};
  tuning_report report_;
};

}  // namespace

tuning_report tune(device& on, std::span<const kernel_use> uses, const tuner_settings& settings) {
  return tuner(on, uses, settings).run();
}

}  // namespace terrane::engine
