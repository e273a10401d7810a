// What counts as lost by replies beside a move, and how long copies rest for it.
#include "engine/session/token_delay.hpp"

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

void tokens(token_delay& of, int count, double ms, std::uint32_t replies = 1) {
  for (int k = 0; k < count; k++) of.token(replies, ms);
}

TEST(token_delay, is_what_tokens_take_longer_than_usual) {
  token_delay delay;
  tokens(delay, 10, 5);
  EXPECT_EQ(delay.lost_ms(), 0);
  delay.watch();
  tokens(delay, 3, 7);
  EXPECT_NEAR(delay.lost_ms(), 6, 1e-9);
  tokens(delay, 2, 4);  // what is won back counts
  EXPECT_NEAR(delay.lost_ms(), 4, 1e-9);
  tokens(delay, 9, 4);
  EXPECT_EQ(delay.lost_ms(), 0);
}

TEST(token_delay, knows_nothing_of_too_few_tokens_and_of_other_replies) {
  token_delay delay;
  tokens(delay, 3, 5);
  delay.watch();
  tokens(delay, 3, 50);
  EXPECT_EQ(delay.lost_ms(), 0);
  delay.ignore();
  tokens(delay, 10, 5);
  delay.watch();
  tokens(delay, 3, 50, 2);  // another reply has come: its tokens have no usual time
  EXPECT_EQ(delay.lost_ms(), 0);
}

TEST(token_delay, a_move_is_compared_with_what_was_usual_before_it) {
  token_delay delay;
  tokens(delay, 10, 5);
  delay.watch();
  tokens(delay, 10, 9);
  delay.ignore();
  tokens(delay, 16, 2);  // the model is elsewhere now
  delay.watch();
  tokens(delay, 1, 3);
  EXPECT_NEAR(delay.lost_ms(), 1, 1e-9);
}

TEST(rest_ms, lasts_until_the_loss_is_a_small_share_of_the_time) {
  EXPECT_EQ(rest_ms(50, 3, 0), 0);
  EXPECT_NEAR(rest_ms(50, 4.5, 0), 25, 1e-9);
  EXPECT_NEAR(rest_ms(60, 4.5, 10), 15, 1e-9);
  EXPECT_NEAR(rest_ms(75, 4.5, 25), 0, 1e-9);
}

TEST(rest_ms, is_never_more_than_twice_the_work) {
  EXPECT_NEAR(rest_ms(50, 40, 0), 100, 1e-9);
  EXPECT_NEAR(rest_ms(140, 40, 90), 10, 1e-9);
  EXPECT_EQ(rest_ms(150, 40, 100), 0);
}

}  // namespace
}  // namespace terrane::engine
