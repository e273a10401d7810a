#include "engine/tokenizer/utf8.hpp"

#include <string>

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";

// What a stream sends for bytes that come one at a time.
std::string byte_by_byte(std::string_view bytes) {
  utf8_stream stream;
  std::string out;
  for (const char c : bytes) {
    out += stream.push({&c, 1});
  }
  return out + std::string(stream.finish());
}

std::string at_once(std::string_view bytes) {
  utf8_stream stream;
  std::string out(stream.push(bytes));
  return out + std::string(stream.finish());
}

std::string repeated(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += replacement;
  }
  return out;
}

TEST(utf8_stream, waits_for_the_rest_of_a_character) {
  utf8_stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\xA6"), "");
  EXPECT_EQ(stream.push("\x99!"), "\xF0\x9F\xA6\x99!");
  EXPECT_EQ(stream.finish(), "");
}

TEST(utf8_stream, an_unfinished_character_ends_as_one_replacement) {
  utf8_stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F\xA6"), "a");
  EXPECT_EQ(stream.finish(), replacement);
  EXPECT_EQ(stream.push("b"), "b");  // as new
  EXPECT_EQ(stream.finish(), "");
}

TEST(utf8_stream, what_cannot_be_completed_is_replaced_at_once) {
  utf8_stream stream;
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("x"), std::string(replacement) + "x");
  EXPECT_EQ(stream.push("\xFF"), replacement);
}

// The examples of The Unicode Standard, table 3-8 to 3-11.
TEST(utf8_stream, replaces_maximal_subparts) {
  for (const auto& read : {at_once, byte_by_byte}) {
    EXPECT_EQ(read("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), repeated(8) + "A");
    EXPECT_EQ(read("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), repeated(8) + "A");
    EXPECT_EQ(read("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), repeated(5) + "A" + repeated(2) + "B");
    EXPECT_EQ(read("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), repeated(4) + "A");
    EXPECT_EQ(read("\xE2\x82\xE2\x82\xAC"), repeated(1) + "\xE2\x82\xAC");
  }
}

TEST(utf8_stream, every_code_point_passes_whole) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) {
      c = 0xE000;
    }  // surrogates are no characters
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(byte_by_byte(text), text) << static_cast<unsigned>(c);
    ASSERT_EQ(decode_character(text).code_point, c);
    ASSERT_EQ(repair_utf8(text), text);
  }
}

TEST(repair_utf8, replaces_each_stray_byte) {
  EXPECT_EQ(repair_utf8("a\x80\xC3(\xE2\x82"), std::string("a") + repeated(2) + "(" + repeated(2));
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), repeated(4));
  EXPECT_EQ(repair_utf8("\xC1\x81"), "A");
}

}  // namespace
}  // namespace terrane::engine
