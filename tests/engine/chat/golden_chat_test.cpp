// Chats against the tokens that the models' own templates give (tests/golden/make_chat.py).
#include "tests/engine/chat/golden_chat.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "engine/chat/chat_format.hpp"

namespace terrane::engine {
namespace {

TEST(golden_chat, smollm2_writes_chats_as_its_template_does) {
  const std::string path = golden::smollm2_path();
  if (path.empty()) {
    GTEST_SKIP() << golden::skip_reason;
  }
  const auto words = golden::open_tokenizer(path);
  ASSERT_TRUE(words) << to_string(words.error());
  const auto format = chat_format::recognise(*words);
  ASSERT_TRUE(format) << to_string(format.error());
  const auto cases =
      golden::chat_cases_at(std::string(TERRANE_TEST_DATA) + "/golden/smollm2_chat.txt");
  ASSERT_EQ(cases.size(), 10u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(format->encode(*words, cases[i].messages).value(), cases[i].ids) << i;
  }
}

// Every template that llama.cpp publishes is either refused or written exactly; which are accepted
// is listed, so that neither a wrong acceptance nor a new refusal passes unseen.
TEST(golden_chat, published_templates_are_written_exactly_or_refused) {
  const char* folder = std::getenv("TERRANE_VOCABULARIES");
  if (folder == nullptr) {
    GTEST_SKIP() << "TERRANE_VOCABULARIES is not set; tests/golden/check_vocabularies.sh sets it";
  }
  const auto vocabulary_at = [&](const char* name) {
    auto file = gguf::file::open(std::string(folder) + "/ggml-vocab-" + name + ".gguf");
    return file.and_then([](const gguf::file& f) { return read_vocabulary(f.meta()); });
  };
  const auto llama3 = vocabulary_at("llama-bpe"), qwen2 = vocabulary_at("qwen2");
  ASSERT_TRUE(llama3 && qwen2);
  std::set<std::string> accepted;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") {
      continue;
    }
    const std::string stem = entry.path().stem().string();
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto facts = read_template(text);
    if (!facts) {
      std::cout << stem << ": " << to_string(facts.error()).substr(0, 160) << '\n';
      continue;
    }
    vocabulary words_of_template = facts->family == chat_family::chatml ? *qwen2 : *llama3;
    words_of_template.chat_template = text;
    const auto words = tokenizer::make(std::move(words_of_template));
    ASSERT_TRUE(words) << to_string(words.error());
    const auto format = chat_format::recognise(*words);
    ASSERT_TRUE(format) << to_string(format.error());
    accepted.insert(stem);
    for (const auto& chat : golden::chat_cases_at(entry.path().string() + ".chat")) {
      if (chat.raises) {
        continue;
      }
      EXPECT_EQ(format->encode(*words, chat.messages).value(), chat.ids)
          << stem << ": " << chat.messages.front().content;
    }
  }
  EXPECT_EQ(accepted,
            (std::set<std::string>{
                "MiMo-VL", "Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.1-8B-Instruct",
                "meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct"}));
}

}  // namespace
}  // namespace terrane::engine
