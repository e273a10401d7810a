#include "engine/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/known_tokens.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

// Far more than any model's context; it bounds the memory that one text can take.
constexpr std::size_t text_limit_bytes = std::size_t{64} << 20;

bool is_sentence_pieces(const vocabulary& words) { return words.model == "llama"; }

result<std::vector<token_type>> read_types(const vocabulary& words) {
  std::vector<token_type> types(words.tokens.size(), token_type::normal);
  if (!words.types.empty() && words.types.size() != words.tokens.size()) {
    return fail(error_code::invalid_input,
                std::to_string(words.types.size()) + " types for " +
                    std::to_string(words.tokens.size()) + " tokens; the numbers must be equal",
                "tokenizer.ggml.token_type");
  }
  for (std::size_t id = 0; id < words.types.size(); ++id) {
    if (words.types[id] < 1 || words.types[id] > 6) {
      return fail(error_code::invalid_input,
                  "token " + std::to_string(id) + " has type " + std::to_string(words.types[id]) +
                      "; types are 1 to 6",
                  "tokenizer.ggml.token_type");
    }
    types[id] = static_cast<token_type>(words.types[id]);
  }
  for (std::size_t id = 0; id < types.size(); ++id) {
    if (find_known_token(words.tokens[id], static_cast<token_id>(id), is_sentence_pieces(words)) !=
        nullptr) {
      types[id] = token_type::control;
    }
  }
  return types;
}

result<void> check_ids(const vocabulary& words) {
  const std::pair<const char*, std::optional<token_id>> named[] = {
      {"bos", words.bos}, {"eos", words.eos}, {"eot", words.eot}, {"eom", words.eom}};
  for (const auto& [name, id] : named) {
    if (id && *id >= words.tokens.size()) {
      return fail(error_code::invalid_input,
                  "token " + std::to_string(*id) + " does not exist; there are " +
                      std::to_string(words.tokens.size()) + " tokens",
                  std::string("tokenizer.ggml.") + name + "_token_id");
    }
  }
  if (words.add_bos.value_or(false) && !words.bos) {
    return fail(
        error_code::invalid_input,
        "prompts are to begin with the bos token, but tokenizer.ggml.bos_token_id is missing",
        "tokenizer.ggml.add_bos_token");
  }
  return {};
}

result<void> check_size(const vocabulary& words) {
  if (words.tokens.empty()) {
    return fail(error_code::invalid_input, "the vocabulary has no tokens", "tokenizer.ggml.tokens");
  }
  // Ids above 2^31 could not be told from the merges' own symbols; no model comes near.
  constexpr std::size_t limit = std::numeric_limits<std::int32_t>::max();
  if (words.tokens.size() > limit || words.merges.size() > limit / 2) {
    return fail(error_code::invalid_input,
                std::to_string(words.tokens.size()) + " tokens and " +
                    std::to_string(words.merges.size()) + " merges are too many",
                "tokenizer.ggml.tokens");
  }
  return {};
}

bool names_phi3(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool has_reply_text(token_type type) {
  return type == token_type::normal || type == token_type::user_defined || type == token_type::byte;
}

}  // namespace

result<tokenizer> tokenizer::make(vocabulary words) {
  if (words.model != "gpt2" && !is_sentence_pieces(words)) {
    return fail(error_code::unsupported,
                (words.model.empty() ? std::string("the file does not name its tokenizer")
                                     : "tokenizer '" + words.model + "' is not known") +
                    "; supported: gpt2 (byte pairs), llama (SentencePiece)",
                "tokenizer.ggml.model");
  }
  tokenizer made(std::move(words));
  if (auto indexed = made.check_and_index(); !indexed) {
    return tl::unexpected(indexed.error());
  }
  return made;
}

result<void> tokenizer::check_and_index() {
  return check_size(words_)
      .and_then([&] { return check_ids(words_); })
      .and_then([&] { return read_types(words_); })
      .and_then([&](std::vector<token_type> types) {
        types_ = std::move(types);
        return make_method();
      })
      .and_then([&] {
        index_special();
        return index_bytes();
      });
}

// How text becomes tokens; the lists it is made from are not needed afterwards.
result<void> tokenizer::make_method() {
  if (is_sentence_pieces(words_)) {
    auto pieces = sentence_pieces::make(words_.tokens, types_, words_.scores);
    if (!pieces) {
      return tl::unexpected(pieces.error());
    }
    method_ = *std::move(pieces);
    words_.scores = {};
    adds_space_prefix_ = words_.add_space_prefix.value_or(true);
    strips_after_special_ = names_phi3(words_.model_name);
    leading_ = words_.add_bos.value_or(true) ? words_.bos : std::nullopt;
    return {};
  }
  auto splitter = pre_tokenizer::make(words_.pre_tokenizer);
  if (!splitter) {
    return tl::unexpected(splitter.error());
  }
  std::vector<bool> may_emit(size());
  std::transform(types_.begin(), types_.end(), may_emit.begin(), [](token_type type) {
    return type != token_type::control && type != token_type::unknown;
  });
  auto pairs = byte_pairs::make(words_.tokens, may_emit, words_.merges);
  if (!pairs) {
    return tl::unexpected(pairs.error());
  }
  leading_ = words_.add_bos.value_or(splitter->adds_bos_by_default()) ? words_.bos : std::nullopt;
  method_ = split_pairs{*std::move(splitter), *std::move(pairs)};
  words_.merges = {};
  return {};
}

void tokenizer::index_special() {
  std::vector<std::pair<std::string, token_id>> special, user;
  for (token_id id = 0; id < size(); ++id) {
    const std::string& text = words_.tokens[id];
    const token_type type = types_[id];
    if (!text.empty() && type == token_type::user_defined) {
      user.emplace_back(text, id);
    }
    if (!text.empty() && (type == token_type::user_defined || type == token_type::control ||
                          type == token_type::unknown)) {
      special.emplace_back(text, id);
    }
    const known_token* known = find_known_token(text, id, is_sentence_pieces(words_));
    const bool named_end = id == words_.eos || id == words_.eot || id == words_.eom;
    if (named_end || (known != nullptr && known->stops)) {
      stops_.push_back(id);
    }
  }
  control_and_user_tokens_ = special_tokens(std::move(special));
  user_tokens_ = special_tokens(std::move(user));
}

result<void> tokenizer::index_bytes() {
  const bool pieces = is_sentence_pieces(words_);
  for (token_id id = 0; id < size(); ++id) {
    const std::string& text = words_.tokens[id];
    const token_type type = types_[id];
    if (pieces && type == token_type::byte) {
      all_bytes_.push_back(static_cast<char>(*byte_of_token_text(text)));
    } else if (has_reply_text(type)) {
      all_bytes_ += pieces                             ? unmark_spaces(text)
                    : type == token_type::user_defined ? text
                                                       : bytes_of_token_text(text);
    }
    if (all_bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return fail(error_code::invalid_input, "the tokens' texts add up to more than 4 GiB",
                  "tokenizer.ggml.tokens");
    }
    bytes_end_.push_back(static_cast<std::uint32_t>(all_bytes_.size()));
  }
  return {};
}

// Phi-3's special tokens take the white space that follows them; three are excepted. Source:
// llama.cpp, which goes by the model's name too, because files do not say it.
bool tokenizer::strips_after(token_id special) const {
  const std::string_view text = this->text(special);
  return strips_after_special_ && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

result<std::vector<token_id>> tokenizer::encode(std::string_view text, special_text how,
                                                const text_seam& before) const {
  if (text.size() > text_limit_bytes) {
    return fail(error_code::invalid_input, "a text of " + std::to_string(text.size()) +
                                               " bytes is too long to tokenise; the limit is " +
                                               std::to_string(text_limit_bytes));
  }
  const special_tokens& specials =
      how == special_text::as_tokens ? control_and_user_tokens_ : user_tokens_;
  std::vector<token_id> ids;
  std::size_t at = 0;
  bool continues = before.continues_text;
  bool strips = before.special && strips_after(*before.special);
  const auto encode_up_to = [&](std::size_t end) {
    while (strips && at < end && is_ascii_space(text[at])) {
      ++at;
    }
    return encode_between(text.substr(at, end - at), continues, ids);
  };
  for (const auto& match : specials.find(text)) {
    if (auto done = encode_up_to(match.begin); !done) {
      return tl::unexpected(done.error());
    }
    ids.push_back(match.token);
    at = match.begin + match.length;
    continues = false;
    strips = strips_after(match.token);
  }
  if (auto done = encode_up_to(text.size()); !done) {
    return tl::unexpected(done.error());
  }
  return ids;
}

// The text between two special tokens, or the ends.
result<void> tokenizer::encode_between(std::string_view text, bool continues_text,
                                       std::vector<token_id>& out) const {
  if (text.empty()) {
    return {};
  }
  if (const auto* pieces = std::get_if<sentence_pieces>(&method_)) {
    const std::string_view prefix =
        adds_space_prefix_ && !continues_text ? space_mark : std::string_view();
    pieces->append(std::string(prefix) + mark_spaces(text), out);
    return {};
  }
  const auto& [splitter, pairs] = std::get<split_pairs>(method_);
  const std::string repaired = repair_utf8(text);
  auto split = splitter.split(repaired);
  if (!split) {
    return tl::unexpected(split.error());
  }
  for (const std::string_view piece : *split) {
    if (!splitter.prefers_whole_pieces() || !pairs.append_whole(piece, out)) {
      pairs.append(piece, out);
    }
  }
  return {};
}

std::string_view tokenizer::bytes(token_id id) const {
  if (id >= bytes_end_.size()) {
    return {};
  }
  const std::uint32_t begin = id == 0 ? 0 : bytes_end_[id - 1];
  return std::string_view(all_bytes_).substr(begin, bytes_end_[id] - begin);
}

std::string_view tokenizer::text(token_id id) const {
  return id < size() ? std::string_view(words_.tokens[id]) : std::string_view();
}

std::string tokenizer::decode(std::span<const token_id> ids) const {
  std::string out;
  for (const token_id id : ids) {
    out += bytes(id);
  }
  return out;
}

bool tokenizer::is_stop(token_id id) const {
  return std::binary_search(stops_.begin(), stops_.end(), id);
}

bool tokenizer::is_control(token_id id) const {
  return id < types_.size() && types_[id] == token_type::control;
}

std::optional<token_id> tokenizer::find_control(std::string_view text) const {
  for (token_id id = 0; id < size(); ++id) {
    if (types_[id] == token_type::control && words_.tokens[id] == text) {
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace terrane::engine
