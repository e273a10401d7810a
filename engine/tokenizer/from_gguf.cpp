#include "engine/tokenizer/from_gguf.hpp"

#include <optional>
#include <string>
#include <utility>

namespace terrane::engine {
namespace {

result<void> read_strings(const gguf::metadata& meta, std::string_view key,
                          std::vector<std::string>& into) {
  auto texts = meta.texts(key);
  if (!texts) {
    return tl::unexpected(texts.error());
  }
  into.assign(texts->begin(), texts->end());
  return {};
}

result<void> read_id(const gguf::metadata& meta, std::string_view key,
                     std::optional<token_id>& into) {
  if (!meta.has(key)) {
    return {};
  }
  auto id = meta.integer<token_id>(key);
  if (!id) {
    return tl::unexpected(id.error());
  }
  into = *id;
  return {};
}

result<void> read_names(const gguf::metadata& meta, vocabulary& into) {
  auto model = meta.text("tokenizer.ggml.model");
  if (!model) {
    return tl::unexpected(model.error());
  }
  auto pre = meta.text_or("tokenizer.ggml.pre", "");
  if (!pre) {
    return tl::unexpected(pre.error());
  }
  auto chat = meta.text_or("tokenizer.chat_template", "");
  if (!chat) {
    return tl::unexpected(chat.error());
  }
  auto name = meta.text_or("general.name", "");
  if (!name) {
    return tl::unexpected(name.error());
  }
  into.model = *model;
  into.model_name = *name;
  into.pre_tokenizer = *pre;
  into.chat_template = *chat;
  return {};
}

result<void> read_flag(const gguf::metadata& meta, std::string_view key,
                       std::optional<bool>& into) {
  if (!meta.has(key)) {
    return {};
  }
  return meta.boolean(key).map([&](bool flag) { into = flag; });
}

// The order in which pairs are joined: a list of merges or a score for each token. Another model is
// refused by its name later on, not for a list that it may lack.
result<void> read_order(const gguf::metadata& meta, vocabulary& into) {
  if (into.model == "gpt2") {
    return read_strings(meta, "tokenizer.ggml.merges", into.merges);
  }
  if (into.model != "llama") {
    return {};
  }
  auto scores = meta.numbers<float>("tokenizer.ggml.scores");
  if (!scores) {
    return tl::unexpected(scores.error());
  }
  into.scores = *std::move(scores);
  return {};
}

result<void> read_types(const gguf::metadata& meta, vocabulary& into) {
  if (meta.has("tokenizer.ggml.token_type")) {
    auto types = meta.numbers<std::int32_t>("tokenizer.ggml.token_type");
    if (!types) {
      return tl::unexpected(types.error());
    }
    into.types = *std::move(types);
  }
  return {};
}

}  // namespace

result<vocabulary> read_vocabulary(const gguf::metadata& meta) {
  vocabulary words;
  return read_names(meta, words)
      .and_then([&] { return read_strings(meta, "tokenizer.ggml.tokens", words.tokens); })
      .and_then([&] { return read_order(meta, words); })
      .and_then([&] { return read_types(meta, words); })
      .and_then([&] { return read_flag(meta, "tokenizer.ggml.add_bos_token", words.add_bos); })
      .and_then([&] {
        return read_flag(meta, "tokenizer.ggml.add_space_prefix", words.add_space_prefix);
      })
      .and_then([&] { return read_id(meta, "tokenizer.ggml.bos_token_id", words.bos); })
      .and_then([&] { return read_id(meta, "tokenizer.ggml.eos_token_id", words.eos); })
      .and_then([&] { return read_id(meta, "tokenizer.ggml.eot_token_id", words.eot); })
      .and_then([&] { return read_id(meta, "tokenizer.ggml.eom_token_id", words.eom); })
      .map([&] { return std::move(words); });
}

}  // namespace terrane::engine
