// How much of a prompt is read beside replies.
#include "engine/session/prompt_pace.hpp"

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

// A device that takes so long for a row of a prompt and so long for each step.
struct made_up_device {
  double row_ms, step_ms;
  double ms(std::uint32_t rows) const { return step_ms + rows * row_ms; }
};

// The rows that it comes to, when steps of prompts beside replies follow each other.
std::uint32_t settles_at(prompt_pace& pace, const made_up_device& on) {
  for (int i = 0; i < 10; i++) pace.took(0, 1, on.ms(1));
  for (int i = 0; i < 20; i++)
    pace.took(pace.rows_beside_replies(), 1, on.ms(pace.rows_beside_replies()));
  return pace.rows_beside_replies();
}

TEST(prompt_pace, a_fast_device_reads_whole_steps) {
  prompt_pace pace(64);
  EXPECT_EQ(pace.rows_beside_replies(), 8U);  // nothing is known of it
  for (int i = 0; i < 3; i++) pace.took(pace.rows_beside_replies(), 1, 6);
  EXPECT_EQ(pace.rows_beside_replies(), 64U);
  EXPECT_EQ(settles_at(pace, {0.1, 5}), 64U);
}

TEST(prompt_pace, on_a_slow_device_no_reply_waits_for_many_tokens) {
  prompt_pace pace(64);
  const made_up_device software{10, 30};
  EXPECT_EQ(settles_at(pace, software), 8U);
  EXPECT_LE(software.ms(8), 150);
}

TEST(prompt_pace, where_a_token_takes_long_a_step_may_as_well) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {15, 500}), 32U);  // a second beside tokens of half a second
  EXPECT_EQ(settles_at(pace, {50, 500}), 16U);
}

TEST(prompt_pace, goes_up_again_once_the_device_is_faster) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {10, 30}), 8U);
  EXPECT_EQ(settles_at(pace, {0.2, 5}), 64U);
}

TEST(prompt_pace, one_step_that_was_held_up_is_soon_forgotten) {
  prompt_pace pace(64);
  const made_up_device on{2, 5};
  EXPECT_EQ(settles_at(pace, on), 64U);
  pace.took(64, 1, 400);
  EXPECT_LT(pace.rows_beside_replies(), 64U);
  EXPECT_EQ(settles_at(pace, on), 64U);
}

TEST(prompt_pace, learns_nothing_from_a_prompt_that_nobody_waits_for) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {0.1, 5}), 64U);
  pace.took(64, 0, 10'000);
  EXPECT_EQ(pace.rows_beside_replies(), 64U);
}

TEST(prompt_pace, a_short_rest_of_a_prompt_says_little) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {10, 30}), 8U);
  pace.took(3, 1, 10);
  EXPECT_EQ(pace.rows_beside_replies(), 8U);
  pace.took(3, 1, 1000);
  EXPECT_EQ(pace.rows_beside_replies(), 8U);
}

}  // namespace
}  // namespace terrane::engine
