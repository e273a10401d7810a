// Vocabularies that are too large to keep here, which tests/golden/check_vocabularies.sh fetches:
// the 500 strings, and the texts and ids that are published with most of them.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <gtest/gtest.h>

#include "tests/engine/tokenizer/golden_file.hpp"

namespace terrane::engine {
namespace {

class vocabularies : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("TERRANE_VOCABULARIES");
    if (folder == nullptr) {
      GTEST_SKIP() << "TERRANE_VOCABULARIES is not set; tests/golden/check_vocabularies.sh sets it";
    }
    path_ = std::string(folder) + "/ggml-vocab-" + GetParam() + ".gguf";
    if (!std::filesystem::exists(path_)) {
      GTEST_SKIP() << path_ << " is not there";
    }
    auto opened = golden::open_tokenizer(path_);
    ASSERT_TRUE(opened) << to_string(opened.error());
    words_.emplace(*std::move(opened));
  }

  std::string path_;
  std::optional<tokenizer> words_;
};

TEST_P(vocabularies, encode_500_strings_as_llama_cpp_does) {
  const auto strings = golden::lines_of("strings.txt");
  const auto expected = golden::lines_at(path_ + ".tokens");
  ASSERT_EQ(expected.size(), 2 * strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string text = golden::unescape(strings[i]);
    if (golden::is_html_end_tag_here(*words_, text)) {
      continue;
    }
    EXPECT_EQ(words_->encode(text, special_text::as_text).value(),
              golden::ids_of(expected[2 * i], "plain"))
        << i << ": " << strings[i];
    EXPECT_EQ(words_->encode(text, special_text::as_tokens).value(),
              golden::ids_of(expected[2 * i + 1], "special"))
        << i << ": " << strings[i];
  }
}

TEST_P(vocabularies, encode_the_published_texts) {
  std::ifstream in(path_ + ".inp");
  if (!in.is_open()) {
    GTEST_SKIP() << "no texts are published with " << GetParam();
  }
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const auto expected = golden::lines_at(path_ + ".out");
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t at = 0; at <= all.size() && count < expected.size(); ++count) {
    const std::size_t end = std::min(all.find(separator, at), all.size());
    const std::string text = all.substr(at, end - at);
    EXPECT_EQ(words_->encode(text, special_text::as_text).value(),
              golden::ids_of("out " + expected[count], "out"))
        << text;
    at = end + separator.size();
  }
  EXPECT_GT(count, 40u);
}

INSTANTIATE_TEST_SUITE_P(published, vocabularies,
                         testing::Values("gpt-2", "llama-bpe", "qwen2", "qwen35", "falcon", "mpt",
                                         "starcoder", "refact", "command-r", "deepseek-llm",
                                         "deepseek-coder", "deepseek-v3", "tekken", "llama-spm",
                                         "phi-3", "baichuan", "mistral-v1", "mistral-v3",
                                         "mistral-v7", "gemma-3"));

}  // namespace
}  // namespace terrane::engine
