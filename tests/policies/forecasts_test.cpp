// How good predictions were: the median of what happened over what was predicted.
#include "policies/explain/forecasts.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace terrane::policies {
namespace {

TEST(forecasts, tell_the_median_ratio_of_what_could_be_compared) {
  forecasts f;
  EXPECT_FALSE(f.quality_of(forecast::time));
  f.add(forecast::time, 10, 12);
  f.add(forecast::time, 10, 400);  // one that was far off says little
  f.add(forecast::time, 10, 9);
  f.add(forecast::time, 0, 9);  // nothing was predicted
  f.add(forecast::time, 10, 0);
  f.add(forecast::time, std::nan(""), 3);
  f.add(forecast::bytes, 100, 100);
  ASSERT_TRUE(f.quality_of(forecast::time));
  EXPECT_EQ(f.quality_of(forecast::time)->count, 3U);
  EXPECT_DOUBLE_EQ(f.quality_of(forecast::time)->median_ratio, 1.2);
  f.add(forecast::time, 10, 10);
  EXPECT_DOUBLE_EQ(f.quality_of(forecast::time)->median_ratio, 1.1);
  EXPECT_DOUBLE_EQ(f.quality_of(forecast::bytes)->median_ratio, 1);
  EXPECT_FALSE(f.quality_of(forecast::pause));
}

TEST(forecasts, keep_the_last_ones) {
  forecasts f;
  for (int i = 0; i < 1000; ++i) f.add(forecast::pause, 1, 5);
  for (int i = 0; i < 256; ++i) f.add(forecast::pause, 1, 2);
  EXPECT_EQ(f.quality_of(forecast::pause)->count, 256U);
  EXPECT_DOUBLE_EQ(f.quality_of(forecast::pause)->median_ratio, 2);
}

}  // namespace
}  // namespace terrane::policies
