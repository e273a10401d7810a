// Chats against the tokens that the models' own templates give (tests/golden/make_chat.py).
#include "tests/engine/chat/golden_chat.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

// The vocabulary that a template's tokens are in.
const char* vocabulary_of(chat_family family, const std::string& template_text) {
  switch (family) {
    case chat_family::chatml:
      return "qwen2";
    case chat_family::llama3:
      return "llama-bpe";
    case chat_family::llama2:
      return "llama-spm";
    case chat_family::mistral:
      return template_text.find("'[INST]'") != std::string::npos ||
                     template_text.find("\"[INST]\"") != std::string::npos
                 ? "tekken"
             : template_text.find("[SYSTEM_PROMPT]") != std::string::npos ? "mistral-v7"
             : template_text.find("AVAILABLE_TOOLS") != std::string::npos ? "mistral-v3"
                                                                          : "mistral-v1";
    case chat_family::gemma:
      return "gemma-3";
    case chat_family::phi3:
      return "phi-3";
  }
  return "";
}
// Every template that llama.cpp publishes is either refused or written exactly; which are accepted
// is listed, so that neither a wrong acceptance nor a new refusal passes unseen.
TEST(golden_chat, published_templates_are_written_exactly_or_refused) {
  const char* folder = std::getenv("TERRANE_VOCABULARIES");
  if (folder == nullptr) {
    GTEST_SKIP() << "TERRANE_VOCABULARIES is not set; tests/golden/check_vocabularies.sh sets it";
  }
  std::map<std::string, vocabulary> vocabularies;
  const auto vocabulary_at = [&](const std::string& name) {
    if (vocabularies.count(name) == 0) {
      auto file = gguf::file::open(std::string(folder) + "/ggml-vocab-" + name + ".gguf");
      auto words = file.and_then([](const gguf::file& f) { return read_vocabulary(f.meta()); });
      EXPECT_TRUE(words) << name;
      vocabularies.emplace(name, words ? *std::move(words) : vocabulary());
    }
    return vocabularies.at(name);
  };
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
    vocabulary words_of_template = vocabulary_at(vocabulary_of(facts->family, text));
    words_of_template.chat_template = text;
    const auto words = tokenizer::make(std::move(words_of_template));
    ASSERT_TRUE(words) << to_string(words.error());
    const auto format = chat_format::recognise(*words);
    ASSERT_TRUE(format) << to_string(format.error());
    accepted.insert(stem);
    int compared = 0;
    for (const auto& chat : golden::chat_cases_at(entry.path().string() + ".chat")) {
      const auto ids = format->encode(*words, chat.messages);
      if (!ids || chat.raises) {
        // An order of roles may be refused for which the template writes nonsense, not the reverse.
        EXPECT_FALSE(ids) << stem << ": " << chat.messages.front().content;
        continue;
      }
      EXPECT_EQ(*ids, chat.ids) << stem << ": " << chat.messages.front().content;
      ++compared;
    }
    EXPECT_GE(compared, 5) << stem;
  }
  // Not fetched by the script; compared if someone put them there.
  accepted.erase("google-gemma-3-it");
  accepted.erase("meta-llama-Llama-2-7b-chat-hf");
  EXPECT_EQ(
      accepted,
      (std::set<std::string>{
          "MiMo-VL", "Qwen-Qwen2.5-7B-Instruct", "google-gemma-2-2b-it",
          "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
          "meta-llama-Llama-3.3-70B-Instruct", "microsoft-Phi-3.5-mini-instruct",
          "mistralai-Mistral-Nemo-Instruct-2407", "test-Llama-3",
          "test-Mistral-Large-Instruct-2407-mistralai-v3-template-modified-to-have-system-"
          "prompt-at-start",
          "test-Mistral-Nemo-Instruct-2407-mistralai-v3-tekken-template-modified-to-have-"
          "system-prompt-at-start",
          "test-Phi-3-medium", "test-Phi-3-mini", "test-Phi-3-small", "test-google-gemma-7b-it",
          "test-mistralai-Mistral-7B-Instruct-v0-2-NOTE-Old-pre-v1-without-a-system-prompt",
          "test-mistralai-Mistral-7B-Instruct-v0-2-mistralai-v1-template-with-a-system-"
          "prompt",
          "test-mistralai-Mistral-Large-Instruct-2411-mistralai-v7-template",
          "test-teknium-OpenHermes-2-5-Mistral-7B"}));
}

}  // namespace
}  // namespace terrane::engine
