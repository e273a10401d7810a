// How much of a prompt is read beside replies.
#include "engine/session/prompt_pace.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "engine/session/execution_plan.hpp"

namespace terrane::engine {
namespace {

// A device that takes so long for a row of a step and so long for each step. What a step computes
// is rounded up, as the step loop does.
struct made_up_device {
  double row_ms, step_ms;
  double ms(std::uint32_t rows) const { return step_ms + rounded({rows, 1, 1}).rows * row_ms; }
};

// A step beside replies while a prompt waits. Returns the rows that are computed.
std::uint32_t step(prompt_pace& pace, const made_up_device& on, std::uint32_t replies = 1) {
  const std::uint32_t prompt = pace.rows_beside(replies);
  pace.took(prompt, replies, on.ms(prompt + replies));
  return rounded({prompt + replies, 1, 1}).rows;
}

// What it comes to, when steps of prompts beside replies follow each other and nothing else.
std::uint32_t settles_at(prompt_pace& pace, const made_up_device& on, std::uint32_t replies = 1) {
  for (int i = 0; i < 20; i++) step(pace, on, replies);
  return step(pace, on, replies);
}

TEST(prompt_pace, a_fast_device_reads_whole_steps) {
  prompt_pace pace(64);
  const made_up_device on{0.1, 5};
  EXPECT_EQ(step(pace, on), 1U);  // nothing is known of it
  for (std::uint32_t rows : {8U, 16U, 32U, 64U}) EXPECT_EQ(step(pace, on), rows);
  EXPECT_EQ(settles_at(pace, on), 64U);
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

// A step computes a power of two of rows: none of them is to be for nothing.
TEST(prompt_pace, no_row_of_a_whole_step_is_for_nothing) {
  for (const made_up_device& on : {made_up_device{10, 30}, {15, 500}, {0.1, 5}}) {
    for (std::uint32_t replies = 1; replies <= 12; replies++) {
      prompt_pace pace(64);
      const std::uint32_t rows = settles_at(pace, on, replies);
      EXPECT_EQ(rows, replies + pace.rows_beside(replies)) << replies << " replies";
      EXPECT_GE(pace.rows_beside(replies), 4U);
    }
  }
}

TEST(prompt_pace, a_step_has_no_more_rows_than_there_are) {
  prompt_pace odd(24);
  EXPECT_EQ(settles_at(odd, {0.1, 5}), 32U);
  EXPECT_EQ(odd.rows_beside(1), 23U);
  EXPECT_EQ(odd.rows_beside(13), 11U);
  EXPECT_EQ(odd.rows_beside(24), 0U);
  EXPECT_EQ(odd.rows_beside(30), 0U);
}

// The first step of all may be held up, by what else begins.
TEST(prompt_pace, a_first_token_that_was_held_up_is_no_measure) {
  prompt_pace pace(64);
  pace.took(0, 1, 4000);
  EXPECT_EQ(settles_at(pace, {10, 30}), 16U);  // beside steps of 8 that took 110 ms
}

TEST(prompt_pace, goes_up_again_once_the_device_is_faster) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {10, 30}), 8U);
  EXPECT_EQ(settles_at(pace, {0.2, 5}), 64U);
}

TEST(prompt_pace, one_step_that_was_held_up_is_soon_forgotten) {
  prompt_pace pace(64);
  const made_up_device on{1, 5};
  EXPECT_EQ(settles_at(pace, on), 64U);
  pace.took(63, 1, 400);
  EXPECT_LT(pace.rows_beside(1), 63U);
  EXPECT_EQ(settles_at(pace, on), 64U);
}

TEST(prompt_pace, learns_nothing_from_a_prompt_that_nobody_waits_for) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {0.1, 5}), 64U);
  pace.took(64, 0, 10'000);
  EXPECT_EQ(pace.rows_beside(1), 63U);
}

// Rows of steps that follow each other without replies.
std::vector<std::uint32_t> alone(prompt_pace& pace, const made_up_device& on, int steps) {
  std::vector<std::uint32_t> rows;
  for (int i = 0; i < steps; i++) {
    rows.push_back(pace.rows_alone());
    pace.took(rows.back(), 0, on.ms(rows.back()));
  }
  return rows;
}

using rows_list = std::vector<std::uint32_t>;

TEST(prompt_pace, without_replies_one_step_tells_how_many_rows_a_device_reads_in_time) {
  prompt_pace fast(2048), slower(2048), slow(2048), odd(96);
  EXPECT_EQ(alone(fast, {0.1, 5}, 4), (rows_list{64, 1024, 2048, 2048}));
  EXPECT_EQ(alone(slower, {0.35, 5}, 3), (rows_list{64, 512, 512}));
  EXPECT_EQ(alone(slow, {10, 30}, 3), (rows_list{64, 64, 64}));
  EXPECT_EQ(alone(odd, {0.1, 5}, 3), (rows_list{64, 96, 96}));
}

TEST(prompt_pace, without_replies_a_step_that_takes_far_too_long_is_cut_down) {
  prompt_pace pace(2048);
  EXPECT_EQ(alone(pace, {0.1, 5}, 3).back(), 2048U);
  pace.took(2048, 0, 400);  // a long context
  EXPECT_EQ(pace.rows_alone(), 2048U);
  pace.took(2048, 0, 1100);
  EXPECT_EQ(pace.rows_alone(), 256U);
  pace.took(256, 0, 1e5);
  EXPECT_EQ(pace.rows_alone(), 64U);
}

TEST(prompt_pace, what_a_person_wants_of_a_slow_device_is_done) {
  prompt_pace pace(512, 512);
  EXPECT_EQ(alone(pace, {10, 30}, 3), (rows_list{512, 512, 512}));
}

TEST(prompt_pace, the_last_rows_of_a_prompt_say_nothing) {
  prompt_pace pace(2048);
  pace.took(5, 0, 0.1);
  EXPECT_EQ(pace.rows_alone(), 64U);
}

TEST(prompt_pace, a_short_rest_of_a_prompt_says_little) {
  prompt_pace pace(64);
  EXPECT_EQ(settles_at(pace, {10, 30}), 8U);
  pace.took(3, 1, 10);
  EXPECT_EQ(pace.rows_beside(1), 7U);
  pace.took(3, 1, 1000);
  EXPECT_EQ(pace.rows_beside(1), 7U);
}

}  // namespace
}  // namespace terrane::engine
