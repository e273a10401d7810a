#include "engine/tokenizer/pre_tokenizer.hpp"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/pre_tokenizer_rules.hpp"

namespace terrane::engine {
namespace {

using testing::ElementsAre;

std::vector<std::string> split(std::string_view rule, std::string_view text) {
  const auto made = pre_tokenizer::make(rule);
  EXPECT_TRUE(made);
  const auto pieces = made->split(text);
  EXPECT_TRUE(pieces);
  return {pieces->begin(), pieces->end()};
}

TEST(pre_tokenizer, gpt2_takes_a_space_with_a_word_a_number_or_signs) {
  EXPECT_THAT(split("gpt-2", "it's  a 1234 -- IT'S"),
              ElementsAre("it", "'s", " ", " a", " 1234", " --", " IT", "'", "S"));
}

TEST(pre_tokenizer, gpt2_leaves_the_last_space_to_what_follows) {
  EXPECT_THAT(split("gpt-2", "a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("gpt-2", "a \n\tb"), ElementsAre("a", " \n", "\t", "b"));
  EXPECT_THAT(split("gpt-2", "a   "), ElementsAre("a", "   "));
}

TEST(pre_tokenizer, smollm_makes_each_digit_a_piece_without_a_space) {
  EXPECT_THAT(split("smollm", "in 2024"), ElementsAre("in", " ", "2", "0", "2", "4"));
  EXPECT_THAT(split("smollm", "x1y"), ElementsAre("x", "1", "y"));
  EXPECT_THAT(split("smollm", "a   5  b"), ElementsAre("a", "   ", "5", " ", " b"));
  EXPECT_THAT(split("smollm", "²٣Ⅷ"), ElementsAre("²", "٣", "Ⅷ"));
}

TEST(pre_tokenizer, llama3_groups_digits_by_three_and_ends_signs_with_their_line_ends) {
  EXPECT_THAT(split("llama-bpe", "I'LL pay 12345!\n\n  ok"),
              ElementsAre("I", "'LL", " pay", " ", "123", "45", "!\n\n", " ", " ok"));
  EXPECT_THAT(split("llama-bpe", "(a \n b"), ElementsAre("(a", " \n", " b"));
}

TEST(pre_tokenizer, qwen2_differs_from_llama3_in_single_digits) {
  EXPECT_THAT(split("qwen2", "a 12"), ElementsAre("a", " ", "1", "2"));
}

TEST(pre_tokenizer, qwen35_keeps_marks_with_their_letters) {
  const std::string devanagari = "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8";  // two letters, one mark
  EXPECT_THAT(split("qwen35", devanagari), ElementsAre(devanagari));
  EXPECT_EQ(split("qwen2", devanagari).size(), 2u);
}

TEST(pre_tokenizer, tekken_ends_a_word_before_a_capital) {
  EXPECT_THAT(split("tekken", "camelCase HTTPServer"), ElementsAre("camel", "Case", " HTTPServer"));
  EXPECT_THAT(split("tekken", "a/b 12 \xC3\xA9\xC3\x89\xC3\xA9"),
              ElementsAre("a", "/b", " ", "1", "2", " \xC3\xA9", "\xC3\x89\xC3\xA9"));
}

TEST(pre_tokenizer, falcon_cuts_off_signs_and_groups_ascii_digits) {
  EXPECT_THAT(split("falcon", "it's (a) 12345"),
              ElementsAre("it", "'", "s", " ", "(", "a", ")", " ", "123", "45"));
}

TEST(pre_tokenizer, deepseek_cuts_off_line_ends_words_and_numbers) {
  EXPECT_THAT(split("deepseek-llm", "a  b\n 12 \xE4\xB8\xAD?"),
              ElementsAre("a", " ", " b", "\n", " ", "12", " ", "\xE4\xB8\xAD", "?"));
  EXPECT_THAT(split("deepseek-coder", "x = 12"), ElementsAre("x", " = ", "1", "2"));
}

TEST(pre_tokenizer, time_grows_with_length_whatever_the_text) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [rule, patterns, whole, bos] : pre_tokenizer_rules()) {
    const auto splitter = pre_tokenizer::make(rule);
    ASSERT_TRUE(splitter);
    for (const char* unit : {" ", "a", "A", "7", "!", "\n", "\xCC\x81", "\xE4\xB8\xAD"}) {
      std::string text;
      for (int i = 0; i < 100'000; ++i) {
        text += unit;
      }
      for (const char* end : {"", "5", "x"}) {
        EXPECT_TRUE(splitter->split(text + end)) << rule << unit;
      }
    }
  }
  // Seconds where a quadratic method would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(pre_tokenizer, classes_are_those_of_unicode_15_1_whatever_the_library_knows) {
  // U+11F04 (a letter since 15.0), U+2EBF0 (15.1), U+11F50 (a digit since 15.0).
  EXPECT_THAT(split("gpt-2", "a\xF0\x91\xBC\x84\xF0\xAE\xAF\xB0!"),
              ElementsAre("a\xF0\x91\xBC\x84\xF0\xAE\xAF\xB0", "!"));
  EXPECT_THAT(split("gpt-2", "7\xF0\x91\xBD\x90!"), ElementsAre("7\xF0\x91\xBD\x90", "!"));
  // U+180E is no space, U+3000 and U+0085 are.
  EXPECT_THAT(split("gpt-2", "!\xE1\xA0\x8E!"), ElementsAre("!\xE1\xA0\x8E!"));
  EXPECT_THAT(split("gpt-2", "!\xE3\x80\x80\xC2\x85"), ElementsAre("!", "\xE3\x80\x80\xC2\x85"));
}

TEST(pre_tokenizer, surrogates_are_signs) {
  EXPECT_THAT(split("smollm", "a\xED\xA0\x80!b"), ElementsAre("a", "\xED\xA0\x80!", "b"));
}

TEST(pre_tokenizer, pieces_cover_the_text) {
  const std::string text = "Mixed \t\r\n text, 42 × 'tis \xF0\x9F\xA6\x99\xF0\x9F\xA6\x99  \n";
  for (const auto& [rule, patterns, whole, bos] : pre_tokenizer_rules()) {
    std::string joined;
    for (const std::string& piece : split(rule, text)) {
      joined += piece;
    }
    EXPECT_EQ(joined, text) << rule;
  }
}

}  // namespace
}  // namespace terrane::engine
