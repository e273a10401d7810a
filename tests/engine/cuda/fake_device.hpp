// A CUDA device over fake_driver, as its tests begin and end: what is left at the end was not given
// back. One test at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/device/cuda/gpu.hpp"
#include "kernels/lang/builder.hpp"
#include "tests/engine/cuda/fake_driver.hpp"

namespace terrane::engine::cuda {

inline kernels::program add_one(const char* name = "add_one", int warps = 1,
                                std::uint32_t shared = 0) {
  kernels::builder b(name, warps);
  if (shared != 0) {
    b.shared(shared);
    b.shared_store(b.i32(0), b.i32(1));
  }
  kernels::val x = b.argument_ptr(0);
  b.store_lanes(kernels::memory_type::i32, x,
                b.load_lanes(kernels::memory_type::i32, x) + b.i32(1));
  return b.finish();
}

class cuda_device : public testing::Test {
 protected:
  void SetUp() override { fake.reset(); }
  void TearDown() override {
    card.reset();
    EXPECT_EQ(fake.things, 0u) << "the driver's things were not given back";
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }

  // The first usable card.
  void open() {
    driver d = fake.table();
    for (const physical_device& p : survey(d)) {
      if (!p.refused.empty()) continue;
      auto opened = gpu::open(d, p, {folder});
      ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
      card = std::move(*opened);
      return;
    }
    FAIL() << "no usable card";
  }

  void keep_code() {
    folder = std::filesystem::temp_directory_path() /
             ("terrane_cuda_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  std::unique_ptr<device_memory> allocate(std::size_t bytes) {
    auto made = card->allocate(bytes, memory_use::scratch);
    EXPECT_TRUE(made.has_value()) << to_string(made.error());
    return made ? std::move(*made) : nullptr;
  }

  void expect_lost(const char* call, const char* name) {
    auto memory = card->allocate(100, memory_use::kv);
    ASSERT_FALSE(memory.has_value());
    EXPECT_EQ(memory.error().code, error_code::device_fault);
    EXPECT_THAT(memory.error().message,
                testing::HasSubstr(std::string(call) + " failed with " + name));
    EXPECT_EQ(memory.error().where, card->info().name);
    ASSERT_TRUE(card->lost().has_value());
    EXPECT_EQ(card->lost()->message, memory.error().message);
  }

  fake_driver& fake = fake_driver::get();
  std::filesystem::path folder;
  std::unique_ptr<device> card;
};

}  // namespace terrane::engine::cuda
