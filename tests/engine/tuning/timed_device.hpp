// A CPU whose time is made up: a test says how long each launch of a kernel takes, and what a
// kernel of another program does. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>

#include "engine/device/cpu/cpu_device.hpp"
#include "kernels/lang/program.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::engine {

class timed_device final : public bench::forwarding_device {
 public:
  using microseconds = double;

  timed_device() : forwarding_device(make_cpu_device({1, 0, {}}).value()) {
    info_.description = "a CPU whose time is made up";
    info_.product_columns = 8;
    info_.product_blocks = 1;
  }

  std::function<microseconds(const kernels::program&, const dispatch&)> launch_us =
      [](const auto&, const auto&) { return 10.0; };
  microseconds compile_us = 0;
  // What is compiled in a program's place.
  std::function<kernels::program(const kernels::program&)> changed = [](const auto& p) {
    return p;
  };
  std::function<void()> before_submit;
  std::size_t submits = 0, compiled = 0;

  std::chrono::steady_clock::time_point now() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double, std::micro>(us_)));
  }

  result<const device_kernel*> compile(const kernels::program& p) override {
    auto made = forwarding_device::compile(changed(p));
    const std::lock_guard lock(guard_);
    compiled++;
    us_ += compile_us;
    if (made) programs_.insert_or_assign(*made, p);
    return made;
  }
  result<std::unique_ptr<command_list>> record(std::span<const dispatch> phases) override {
    auto list = std::make_unique<timed_list>();
    auto inner = forwarding_device::record(phases);
    if (!inner) return inner;
    list->inner = std::move(*inner);
    list->phases.assign(phases.begin(), phases.end());
    return list;
  }
  result<void> submit(command_list& list) override {
    if (before_submit) before_submit();
    submits++;
    auto& timed = static_cast<timed_list&>(list);
    for (const dispatch& d : timed.phases) us_ += launch_us(programs_.at(d.kernel), d);
    return forwarding_device::submit(*timed.inner);
  }

 private:
  struct timed_list final : command_list {
    std::unique_ptr<command_list> inner;
    std::vector<dispatch> phases;
  };

  std::mutex guard_;
  std::map<const device_kernel*, kernels::program> programs_;
  microseconds us_ = 0;
};

// The most columns of a tile in it.
inline int columns_of(const kernels::program& p) {
  int most = 0;
  for (const kernels::value_type& v : p.values) most = std::max<int>(most, v.columns);
  return most;
}

}  // namespace terrane::engine
