// The Vulkan device that tests run on: the first usable one of the machine, Mesa's software device
// where there is no GPU. Tests of the fixture are skipped with the reason where there is none.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "engine/device/vulkan/vulkan_device.hpp"

namespace terrane::engine {

class vulkan_test : public testing::Test {
 protected:
  void SetUp() override {
    if (opened().gpu == nullptr) GTEST_SKIP() << opened().why_not;
  }

  static device& gpu() { return *opened().gpu; }

  // The same device opened again, its kernels written as for a device of which nothing is known.
  static device& portable_gpu() {
    static std::unique_ptr<device> portable = [] {
      vulkan_options options;
      options.portable_code = true;
      auto made = open_vulkan_device(gpu().info().name, options);
      return made ? std::move(*made) : nullptr;
    }();
    return *portable;
  }

  static std::unique_ptr<device_memory> allocate(std::size_t bytes) {
    return allocate(gpu(), bytes);
  }
  static std::unique_ptr<device_memory> allocate(device& on, std::size_t bytes) {
    auto made = on.allocate(bytes, memory_use::scratch);
    EXPECT_TRUE(made.has_value()) << to_string(made.error());
    return made ? std::move(*made) : nullptr;
  }

  static void run(const kernels::program& p, std::span<const std::uint64_t> arguments,
                  std::uint32_t groups_x = 1, std::uint32_t groups_y = 1) {
    run(gpu(), p, arguments, groups_x, groups_y);
  }
  static void run(device& on, const kernels::program& p, std::span<const std::uint64_t> arguments,
                  std::uint32_t groups_x, std::uint32_t groups_y) {
    auto kernel = on.compile(p);
    ASSERT_TRUE(kernel.has_value()) << to_string(kernel.error());
    dispatch d;
    d.kernel = *kernel;
    d.groups_x = groups_x;
    d.groups_y = groups_y;
    std::copy(arguments.begin(), arguments.end(), d.arguments.begin());
    auto list = on.record(std::span(&d, 1));
    ASSERT_TRUE(list.has_value()) << to_string(list.error());
    ASSERT_TRUE(on.submit(**list).has_value());
    result<void> ended = on.wait();
    ASSERT_TRUE(ended.has_value()) << to_string(ended.error());
  }

 private:
  struct opened_device {
    std::unique_ptr<device> gpu;
    std::string why_not;
  };

  // One for all tests: opening a device takes a while on some machines.
  static opened_device& opened() {
    static opened_device first = open_first();
    return first;
  }

  static opened_device open_first() {
    auto found = list_vulkan_devices();
    if (!found) return {nullptr, to_string(found.error())};
    std::string reasons = "no Vulkan device is usable";
    for (const vulkan_candidate& c : *found) {
      if (!c.refused.empty()) {
        reasons += "; " + c.info.description + ": " + c.refused;
        continue;
      }
      auto gpu = open_vulkan_device(c.info.name);
      if (gpu) return {std::move(*gpu), ""};
      reasons += "; " + to_string(gpu.error());
    }
    return {nullptr, reasons};
  }
};

}  // namespace terrane::engine
