// The 500 strings of tests/golden against llama.cpp's token ids.
#include <gtest/gtest.h>

#include "tests/engine/tokenizer/golden_file.hpp"

namespace terrane::engine {
namespace {

class smollm2 : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = golden::smollm2_path();
    if (path.empty()) {
      GTEST_SKIP() << golden::skip_reason;
    }
    auto opened = golden::open_tokenizer(path);
    ASSERT_TRUE(opened) << to_string(opened.error());
    words_.emplace(*std::move(opened));
  }

  std::optional<tokenizer> words_;
};

TEST_F(smollm2, encodes_500_strings_as_llama_cpp_does) {
  const auto strings = golden::lines_of("strings.txt");
  const auto expected = golden::lines_of("smollm2_tokens.txt");
  ASSERT_EQ(strings.size(), 500u);
  ASSERT_EQ(expected.size(), 1000u);
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string text = golden::unescape(strings[i]);
    const auto plain = words_->encode(text, special_text::as_text);
    const auto special = words_->encode(text, special_text::as_tokens);
    ASSERT_TRUE(plain && special) << i;
    EXPECT_EQ(*plain, golden::ids_of(expected[2 * i], "plain")) << i << ": " << strings[i];
    EXPECT_EQ(*special, golden::ids_of(expected[2 * i + 1], "special")) << i << ": " << strings[i];
  }
}

TEST_F(smollm2, decodes_what_it_encoded) {
  for (const std::string& line : golden::lines_of("strings.txt")) {
    const std::string text = golden::unescape(line);
    const auto ids = words_->encode(text, special_text::as_text);
    ASSERT_TRUE(ids);
    // The vocabulary has no token for some bytes; a text that holds one cannot come back.
    const std::string repaired = repair_utf8(text);
    if (repaired.find_first_of(std::string("\x04\x06\x13\x14\x16\x1D\xF1\xF2")) == repaired.npos) {
      EXPECT_EQ(words_->decode(*ids), repaired) << line;
    }
  }
}

TEST_F(smollm2, never_makes_a_control_token_of_text) {
  for (const std::string& line : golden::lines_of("strings.txt")) {
    const auto ids = words_->encode(golden::unescape(line), special_text::as_text);
    ASSERT_TRUE(ids);
    for (const token_id id : *ids) {
      EXPECT_FALSE(words_->is_control(id)) << line;
    }
  }
}

TEST_F(smollm2, stops_at_the_end_of_a_turn_and_of_the_text) {
  EXPECT_TRUE(words_->is_stop(2));  // <|im_end|>, the file's eos
  EXPECT_TRUE(words_->is_stop(0));  // <|endoftext|>
  EXPECT_FALSE(words_->is_stop(1));
  EXPECT_EQ(words_->stop_tokens().size(), 2u);
  EXPECT_FALSE(words_->leading_token());
}

// SentencePiece on the second real model.
TEST(gemma3, encodes_500_strings_as_llama_cpp_does) {
  const char* path = std::getenv("TERRANE_GEMMA3");
  if (path == nullptr) {
    GTEST_SKIP() << "TERRANE_GEMMA3 is not set; it is the path of gemma-3-270m-q4_k_m.gguf";
  }
  const auto words = golden::open_tokenizer(path);
  ASSERT_TRUE(words) << to_string(words.error());
  const auto strings = golden::lines_of("strings.txt");
  const auto expected = golden::lines_of("gemma3_tokens.txt");
  ASSERT_EQ(expected.size(), 2 * strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string text = golden::unescape(strings[i]);
    if (golden::is_html_end_tag_here(*words, text)) {
      continue;
    }
    const auto plain = words->encode(text, special_text::as_text);
    const auto special = words->encode(text, special_text::as_tokens);
    ASSERT_TRUE(plain && special) << i;
    EXPECT_EQ(*plain, golden::ids_of(expected[2 * i], "plain")) << i << ": " << strings[i];
    EXPECT_EQ(*special, golden::ids_of(expected[2 * i + 1], "special")) << i << ": " << strings[i];
    if (text == repair_utf8(text)) {
      EXPECT_EQ(words->decode(*plain), text) << i;
    }
  }
}

}  // namespace
}  // namespace terrane::engine
