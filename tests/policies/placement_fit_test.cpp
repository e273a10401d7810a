#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/placement/fit.hpp"
#include "tests/policies/placement_cases.hpp"

namespace terrane::policies::tests {
namespace {

using placement::obstacle;
using placement::request;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1U << 20, gib = 1U << 30;

request one_card() {
  request r = transformer(32, 40 * mib, 120 * mib, 256 * 1024);
  add_device(r, "gpu", 8 * gib, 900e9);
  r.sessions = 2;
  return r;
}

TEST(placement_fit, says_where_with_what_and_how_fast) {
  const request r = one_card();
  const auto a = placement::fit(r, 32768);
  ASSERT_TRUE(a.has_value());
  ASSERT_TRUE(a->plan.has_value());
  EXPECT_GE(a->largest_context, r.context_tokens);
  const std::string text = placement::to_text(r, *a);
  EXPECT_THAT(text, HasSubstr("fits with 2 sessions of 8192 tokens each"));
  EXPECT_THAT(text, HasSubstr("gpu: holds 66 parts"));
  EXPECT_THAT(text, HasSubstr("no placement is faster"));
  EXPECT_THAT(placement::to_json(r, *a), HasSubstr("\"fits\":true"));
}

TEST(placement_fit, finds_the_longest_context_that_fits) {
  request r = one_card();
  r.context_tokens = 32768;
  const auto a = placement::fit(r, 32768);
  ASSERT_TRUE(a.has_value());
  EXPECT_FALSE(a->plan.has_value());
  EXPECT_EQ(a->why_not.what, obstacle::kv);
  ASSERT_GT(a->largest_context, 0U);
  // It does, and one page more does not.
  r.context_tokens = a->largest_context;
  EXPECT_TRUE(placement::plan(r).has_value());
  r.context_tokens += r.page_tokens;
  EXPECT_FALSE(placement::plan(r).has_value());
}

TEST(placement_fit, scratch_follows_the_context) {
  request r = one_card();
  r.context_tokens = 32768;
  const auto scratch = [](request& of) {
    for (auto& d : of.devices) d.fee_bytes = std::uint64_t{of.context_tokens} * 64 * 1024;
  };
  scratch(r);
  const auto kept = placement::fit(r, 32768);
  const auto follows = placement::fit(r, 32768, scratch);
  ASSERT_TRUE(kept && follows);
  EXPECT_GT(follows->largest_context, kept->largest_context);
  r.context_tokens = follows->largest_context;
  scratch(r);
  EXPECT_TRUE(placement::plan(r).has_value());
  r.context_tokens += r.page_tokens;
  scratch(r);
  EXPECT_FALSE(placement::plan(r).has_value());
}

TEST(placement_fit, says_when_no_context_fits) {
  request r = one_card();
  r.devices[0].budget_bytes = 3 * gib;
  const auto a = placement::fit(r, 32768);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->largest_context, 0U);
  EXPECT_EQ(a->why_not.what, obstacle::weights);
  EXPECT_THAT(placement::to_text(r, *a), HasSubstr("it fits with no context"));
  EXPECT_THAT(placement::to_json(r, *a), HasSubstr("\"blocked_by\":\"weights\""));
}

}  // namespace
}  // namespace terrane::policies::tests
