#include "ipc/varlink/framing.hpp"

#include <gtest/gtest.h>

namespace terrane::ipc::varlink {
namespace {

using std::string_literals::operator""s;

TEST(framing, a_message_may_come_byte_by_byte) {
  message_splitter splitter(100);
  for (const char c : "{}"s) {
    splitter.feed({&c, 1});
    EXPECT_FALSE(splitter.next());
    EXPECT_TRUE(splitter.in_message());
  }
  splitter.feed("\0"s);
  EXPECT_EQ(splitter.next(), "{}");
  EXPECT_FALSE(splitter.next());
  EXPECT_FALSE(splitter.in_message());
}

TEST(framing, several_messages_may_come_at_once_and_be_empty) {
  message_splitter splitter(100);
  splitter.feed("a\0\0bc\0d"s);
  EXPECT_EQ(splitter.next(), "a");
  EXPECT_EQ(splitter.next(), "");
  EXPECT_EQ(splitter.next(), "bc");
  EXPECT_FALSE(splitter.next());
  splitter.feed("e\0"s);
  EXPECT_EQ(splitter.next(), "de");
}

TEST(framing, a_message_of_the_limit_passes_and_one_byte_more_does_not) {
  message_splitter splitter(4);
  splitter.feed("1234\0"s);
  EXPECT_EQ(splitter.next(), "1234");
  splitter.feed("12345"s);
  EXPECT_FALSE(splitter.next());
  EXPECT_TRUE(splitter.oversized());
  splitter.feed("\0ok\0"s);
  EXPECT_FALSE(splitter.next());
}

TEST(framing, an_oversized_message_that_is_whole_is_not_given_out_either) {
  message_splitter splitter(4);
  splitter.feed("12345\0"s);
  EXPECT_FALSE(splitter.next());
  EXPECT_TRUE(splitter.oversized());
}

}  // namespace
}  // namespace terrane::ipc::varlink
