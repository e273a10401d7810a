// CUDA on a machine without it, in any build: said in the list of devices, and nothing else.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/cuda/cuda_device.hpp"
#include "engine/device/discovery.hpp"

namespace terrane::engine {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(cuda, a_machine_without_it_says_so) {
  result<std::vector<cuda_candidate>> cards = list_cuda_devices();
  if (cards) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const auto why =
      AnyOf(HasSubstr("there is no NVIDIA driver here: libcuda.so.1"), HasSubstr("finds no GPU"),
            HasSubstr("CUDA is not built in"), HasSubstr("too old"), HasSubstr("does not start"));
  EXPECT_EQ(cards.error().code, error_code::unsupported);
  EXPECT_THAT(cards.error().message, why);

  const std::vector<device_candidate> all = list_devices({});
  const auto line = std::find_if(all.begin(), all.end(),
                                 [](const auto& c) { return c.info.kind == device_kind::cuda; });
  ASSERT_NE(line, all.end());
  EXPECT_EQ(line->info.name, "cuda");
  EXPECT_THAT(line->refused, why);
  EXPECT_EQ(all.front().info.name, "cpu");
  EXPECT_EQ(all.front().refused, "");

  for (const char* name : {"cuda", "cuda:00000000-0000-0000-0000-000000000001"}) {
    auto opened = open_device(name, {});
    ASSERT_FALSE(opened.has_value());
    EXPECT_TRUE(opened.error().code == error_code::unsupported ||
                opened.error().code == error_code::not_found);
  }
  EXPECT_THAT(open_device("cuda", {}).error().message, why);
}

}  // namespace
}  // namespace terrane::engine
