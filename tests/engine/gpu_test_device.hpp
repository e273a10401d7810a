// The GPUs that tests run on: the first usable one of each driver, Mesa's software device where
// there is no other for Vulkan. A test on a target that this machine lacks is skipped with the
// reason.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "engine/device/discovery.hpp"
#include "engine/device/vulkan/vulkan_device.hpp"

namespace terrane::engine {

// portable_vulkan: the same device, its kernels written as for one of which nothing is known;
// early_vulkan: as for one that loads weights early.
enum class gpu_target { vulkan, portable_vulkan, early_vulkan, cuda };

inline std::string name_of_target(gpu_target t) {
  constexpr const char* names[] = {"vulkan", "portable_vulkan", "early_vulkan", "cuda"};
  return names[static_cast<std::size_t>(t)];
}

struct opened_gpu {
  std::unique_ptr<device> gpu;
  std::string why_not;
};

inline opened_gpu open_target(gpu_target t) {
  device_settings settings;
  settings.self_test = false;  // a test of its own
  result<std::unique_ptr<device>> opened =
      open_device(t == gpu_target::cuda ? "cuda" : "vulkan", settings);
  if (opened && (t == gpu_target::portable_vulkan || t == gpu_target::early_vulkan)) {
    vulkan_options options;
    options.portable_code = t == gpu_target::portable_vulkan;
    options.load_early = t == gpu_target::early_vulkan;
    opened = open_vulkan_device((*opened)->info().name, options);
  }
  if (!opened) return {nullptr, to_string(opened.error())};
  return {std::move(*opened), ""};
}

// One for all tests: opening a device takes a while on some machines.
template <gpu_target Target>
opened_gpu& opened_once() {
  static opened_gpu gpu = open_target(Target);
  return gpu;
}

inline opened_gpu& the_gpu(gpu_target t) {
  switch (t) {
    case gpu_target::vulkan:
      return opened_once<gpu_target::vulkan>();
    case gpu_target::portable_vulkan:
      return opened_once<gpu_target::portable_vulkan>();
    case gpu_target::early_vulkan:
      return opened_once<gpu_target::early_vulkan>();
    case gpu_target::cuda:
      break;
  }
  return opened_once<gpu_target::cuda>();
}

class gpu_test : public testing::Test {
 protected:
  virtual gpu_target target() const = 0;

  void SetUp() override {
    if (the_gpu(target()).gpu == nullptr) GTEST_SKIP() << the_gpu(target()).why_not;
  }

  device& gpu() const { return *the_gpu(target()).gpu; }

  std::unique_ptr<device_memory> allocate(std::size_t bytes) const {
    auto made = gpu().allocate(bytes, memory_use::scratch);
    EXPECT_TRUE(made.has_value()) << to_string(made.error());
    return made ? std::move(*made) : nullptr;
  }

  void run(const kernels::program& p, std::span<const std::uint64_t> arguments,
           std::uint32_t groups_x = 1, std::uint32_t groups_y = 1) const {
    auto kernel = gpu().compile(p);
    ASSERT_TRUE(kernel.has_value()) << to_string(kernel.error());
    dispatch d;
    d.kernel = *kernel;
    d.groups_x = groups_x;
    d.groups_y = groups_y;
    std::copy(arguments.begin(), arguments.end(), d.arguments.begin());
    auto list = gpu().record(std::span(&d, 1));
    ASSERT_TRUE(list.has_value()) << to_string(list.error());
    ASSERT_TRUE(gpu().submit(**list).has_value());
    result<void> ended = gpu().wait();
    ASSERT_TRUE(ended.has_value()) << to_string(ended.error());
  }
};

class every_gpu_test : public gpu_test, public testing::WithParamInterface<gpu_target> {
 protected:
  gpu_target target() const override { return GetParam(); }
};

inline std::string name_of_gpu_case(const testing::TestParamInfo<gpu_target>& which) {
  return name_of_target(which.param);
}

}  // namespace terrane::engine
