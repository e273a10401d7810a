// Feeds arbitrary vocabularies, texts and chat templates to the tokenizer. The input is cut at each
// byte 1E: the first part is options, the last the text, the one before it the chat template, and
// each part between is a token (its type, its score, its text) or, with type 7, a merge. A
// vocabulary must be refused or tokenise any text: with known tokens only, none of them a control
// token that the text spelt, and the chat format must keep what people write out of the markup.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/chat_format.hpp"
#include "engine/tokenizer/pre_tokenizer_rules.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace {

using namespace terrane::engine;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "tokenizer_fuzz: %s\n", what);
  std::abort();
}

std::vector<std::string> parts_of(std::string_view input) {
  std::vector<std::string> parts(1);
  for (const char c : input) {
    if (c == '\x1E') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// One byte each: the kind, the pre-tokenizer, flags, bos, eos.
vocabulary vocabulary_of(const std::vector<std::string>& parts) {
  const auto option = [&](std::size_t i) {
    return i < parts[0].size() ? static_cast<std::uint8_t>(parts[0][i]) : std::uint8_t{0};
  };
  vocabulary words;
  words.model = option(0) % 2 == 0 ? "llama" : "gpt2";
  const auto rules = pre_tokenizer_rules();
  words.pre_tokenizer = rules[option(1) % rules.size()].name;
  if ((option(2) & 1) != 0) words.add_space_prefix = false;
  if ((option(2) & 2) != 0) words.model_name = "phi-3";
  if ((option(2) & 4) != 0) words.add_bos = true;
  words.bos = option(3);
  words.eos = option(4);
  for (std::size_t i = 1; i + 2 < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part.size() < 2) continue;
    if (part[0] == 7) {
      words.merges.push_back(part.substr(2));
      continue;
    }
    words.tokens.push_back(part.substr(2));
    words.types.push_back(part[0]);
    words.scores.push_back(static_cast<float>(part[1]));
  }
  if (parts.size() > 2) words.chat_template = parts[parts.size() - 2];
  return words;
}

void check(const tokenizer& words, const std::string& text) {
  const auto plain = words.encode(text, special_text::as_text);
  const auto special = words.encode(text, special_text::as_tokens);
  require(plain && special, "a text was refused");
  for (const token_id id : *plain) {
    require(id < words.size(), "a token that does not exist");
    require(!words.is_control(id), "text became a control token");
  }
  for (const token_id id : *special) require(id < words.size(), "a token that does not exist");
  words.decode(*special);
  const auto format = chat_format::recognise(words);
  if (!format) return;
  const auto control_tokens_of = [&](const std::string& content) {
    const std::vector<chat_message> chat = {{chat_role::user, content}};
    const auto ids = format->encode(words, chat);
    require(ids.has_value(), "a user's message was refused");
    return std::count_if(ids->begin(), ids->end(),
                         [&](token_id id) { return words.is_control(id); });
  };
  require(control_tokens_of(text) == control_tokens_of(""), "a message changed the markup");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = parts_of({reinterpret_cast<const char*>(data), size});
  const auto words = tokenizer::make(vocabulary_of(parts));
  if (!words) {
    require(!words.error().where.empty(), "a vocabulary was refused without the key's name");
    return 0;
  }
  check(*words, parts.back());
  return 0;
}
