#include "engine/gguf/text.hpp"

#include <string>

#include <gtest/gtest.h>

namespace terrane::engine::gguf {
namespace {

TEST(gguf_text, accepts_utf8_of_every_length) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("blk.0.attn_q.weight"));
  EXPECT_TRUE(is_utf8("\xC2\x80 \xC4\xA0 \xDF\xBF"));
  EXPECT_TRUE(is_utf8("\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF"));
  EXPECT_TRUE(is_utf8("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"));
}

TEST(gguf_text, refuses_what_is_not_utf8) {
  for (const std::string bad :
       {"\x80", "\xBF", "\xC2", "a\xC3(", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xE2\x82",
        "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "\xE2\x28\xA1", "\xF0\x28\x8C\xBC"}) {
    EXPECT_FALSE(is_utf8(bad)) << shown(bad);
  }
}

TEST(gguf_text, shows_text_without_control_bytes_and_not_at_length) {
  EXPECT_EQ(shown("a b"), "'a b'");
  EXPECT_EQ(shown("a\nb\x1b[0m"), "'a\\x0ab\\x1b[0m'");
  EXPECT_EQ(shown("\xC4\xA0"), "'\\xc4\\xa0'");
  EXPECT_EQ(shown(std::string(1000, 'x')).size(), 80 + std::string("'...'").size());
}

}  // namespace
}  // namespace terrane::engine::gguf
