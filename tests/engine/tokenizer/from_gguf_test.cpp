// What a file says about its tokenizer, right and wrong: one message that names file, key and
// value.
#include "engine/tokenizer/from_gguf.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gguf/file.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/engine/gguf/raw_gguf.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine {
namespace {

using terrane::test::raw;
using terrane::test::raw_text;
using testing::AllOf;
using testing::HasSubstr;

using change = std::function<void(terrane::test::raw_gguf&)>;

// A SentencePiece tokenizer of three tokens without the keys in `left_out`; `more` adds its own.
result<tokenizer> opened(const std::vector<std::string>& left_out, const change& more) {
  terrane::test::raw_gguf file;
  const std::map<std::string, std::function<void(const std::string&)>> keys = {
      {"tokenizer.ggml.model",
       [&](const std::string& key) { file.entry(key, 8, raw_text("llama")); }},
      {"tokenizer.ggml.tokens",
       [&](const std::string& key) {
         file.array(key, 8, 3, raw_text("<unk>") + raw_text("<s>") + raw_text("a"));
       }},
      {"tokenizer.ggml.scores",
       [&](const std::string& key) { file.array(key, 6, 3, raw(0.0F) + raw(0.0F) + raw(-1.0F)); }},
      {"tokenizer.ggml.token_type",
       [&](const std::string& key) {
         file.array(key, 5, 3, raw(std::int32_t{2}) + raw(std::int32_t{3}) + raw(std::int32_t{1}));
       }},
      {"tokenizer.ggml.bos_token_id",
       [&](const std::string& key) { file.entry(key, 4, raw(std::uint32_t{1})); }},
      {"tokenizer.ggml.add_space_prefix",
       [&](const std::string& key) { file.entry(key, 7, raw(std::uint8_t{0})); }},
  };
  for (const auto& [key, put] : keys) {
    if (std::find(left_out.begin(), left_out.end(), key) == left_out.end()) {
      put(key);
    }
  }
  more(file);
  terrane::test::temporary_folder folder;
  return gguf::file::open(folder.write("words.gguf", file.bytes()).string())
      .and_then([](const gguf::file& f) { return read_vocabulary(f.meta()); })
      .and_then(tokenizer::make);
}

std::string refusal(
    const std::string& key, const change& more = [](terrane::test::raw_gguf&) {}) {
  const auto words = opened({key}, more);
  return words ? "" : to_string(words.error());
}

TEST(from_gguf, reads_a_sentence_piece_tokenizer) {
  const auto words = opened({}, [](terrane::test::raw_gguf&) {});
  ASSERT_TRUE(words) << to_string(words.error());
  EXPECT_EQ(words->size(), 3u);
  EXPECT_EQ(words->leading_token(), 1u);
  EXPECT_EQ(words->encode("aa", special_text::as_text).value(), (std::vector<token_id>{2, 2}));
}

TEST(from_gguf, names_what_is_missing) {
  for (const char* key :
       {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores"}) {
    EXPECT_THAT(refusal(key), AllOf(HasSubstr("words.gguf"), HasSubstr(key))) << key;
  }
  EXPECT_EQ(refusal("tokenizer.ggml.bos_token_id"), "");
  EXPECT_EQ(refusal("tokenizer.ggml.add_space_prefix"), "");
}

TEST(from_gguf, names_what_has_a_wrong_type_or_count) {
  const auto scores = [](std::uint32_t type, std::uint64_t count, const std::string& values) {
    return refusal("tokenizer.ggml.scores", [&](terrane::test::raw_gguf& file) {
      file.array("tokenizer.ggml.scores", type, count, values);
    });
  };
  EXPECT_THAT(scores(8, 1, raw_text("high")),
              AllOf(HasSubstr("words.gguf"), HasSubstr("tokenizer.ggml.scores")));
  EXPECT_THAT(scores(6, 2, raw(0.0F) + raw(0.0F)), HasSubstr("2 scores for 3 tokens"));
  EXPECT_THAT(refusal("tokenizer.ggml.scores",
                      [](terrane::test::raw_gguf& file) {
                        file.entry("tokenizer.ggml.scores", 6, raw(1.0F));
                      }),
              HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(refusal("tokenizer.ggml.token_type",
                      [](terrane::test::raw_gguf& file) {
                        file.array("tokenizer.ggml.token_type", 5, 1, raw(std::int32_t{1}));
                      }),
              HasSubstr("1 types for 3 tokens"));
  EXPECT_THAT(refusal("tokenizer.ggml.bos_token_id",
                      [](terrane::test::raw_gguf& file) {
                        file.entry("tokenizer.ggml.bos_token_id", 5, raw(std::int32_t{-1}));
                      }),
              AllOf(HasSubstr("tokenizer.ggml.bos_token_id"), HasSubstr("-1")));
  EXPECT_THAT(refusal("tokenizer.ggml.add_space_prefix",
                      [](terrane::test::raw_gguf& file) {
                        file.entry("tokenizer.ggml.add_space_prefix", 8, raw_text("no"));
                      }),
              HasSubstr("tokenizer.ggml.add_space_prefix"));
}

TEST(from_gguf, an_unknown_tokenizer_is_refused_by_its_name) {
  EXPECT_THAT(refusal("tokenizer.ggml.model",
                      [](terrane::test::raw_gguf& file) {
                        file.entry("tokenizer.ggml.model", 8, raw_text("bert"));
                      }),
              AllOf(HasSubstr("tokenizer.ggml.model"), HasSubstr("'bert'")));
}

}  // namespace
}  // namespace terrane::engine
