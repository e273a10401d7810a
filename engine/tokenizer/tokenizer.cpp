#include "engine/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

constexpr std::size_t text_limit_bytes = std::size_t{1} << 30;

// Control tokens known by name. A file that gives one of them another type is wrong, and would let
// text spell it; they are control tokens here whatever it says.
struct known_control {
  std::string_view text;
  bool stops;
};
constexpr known_control known_controls[] = {
    {"<|im_start|>", false},      {"<|im_end|>", true},
    {"<|endoftext|>", true},      {"<|begin_of_text|>", false},
    {"<|end_of_text|>", true},    {"<|start_header_id|>", false},
    {"<|end_header_id|>", false}, {"<|eot_id|>", true},
    {"<|eom_id|>", true},         {"<|end|>", true},
};

const known_control* find_known(std::string_view text) {
  const auto* at = std::find_if(std::begin(known_controls), std::end(known_controls),
                                [&](const known_control& k) { return k.text == text; });
  return at == std::end(known_controls) ? nullptr : at;
}

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
    if (find_known(words.tokens[id]) != nullptr) {
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

bool has_reply_text(token_type type) {
  return type == token_type::normal || type == token_type::user_defined || type == token_type::byte;
}

}  // namespace

tokenizer::tokenizer(vocabulary words, pre_tokenizer splitter)
    : words_(std::move(words)), splitter_(std::move(splitter)) {}

result<tokenizer> tokenizer::make(vocabulary words) {
  if (words.model != "gpt2") {
    return fail(error_code::unsupported,
                (words.model.empty() ? std::string("the file does not name its tokenizer")
                                     : "tokenizer '" + words.model + "' is not known") +
                    "; supported: gpt2 (byte pairs)",
                "tokenizer.ggml.model");
  }
  auto splitter = pre_tokenizer::make(words.pre_tokenizer);
  if (!splitter) {
    return tl::unexpected(splitter.error());
  }
  tokenizer made(std::move(words), *std::move(splitter));
  if (auto indexed = made.index(); !indexed) {
    return tl::unexpected(indexed.error());
  }
  return made;
}

result<void> tokenizer::index() {
  if (auto checked = check_size(words_); !checked) {
    return checked;
  }
  if (auto checked = check_ids(words_); !checked) {
    return checked;
  }
  auto types = read_types(words_);
  if (!types) {
    return tl::unexpected(types.error());
  }
  types_ = *std::move(types);

  std::vector<bool> may_emit(size());
  std::vector<std::pair<std::string, token_id>> special, user;
  for (token_id id = 0; id < size(); ++id) {
    const std::string& text = words_.tokens[id];
    const token_type type = types_[id];
    may_emit[id] = type != token_type::control && type != token_type::unknown;
    const bool is_user = type == token_type::user_defined;
    if (!text.empty() && (is_user || !may_emit[id])) {
      special.emplace_back(text, id);
    }
    if (!text.empty() && is_user) {
      user.emplace_back(text, id);
    }
    if (is_user) {
      all_bytes_ += text;
    } else if (has_reply_text(type)) {
      all_bytes_ += bytes_of_token_text(text);
    }
    if (all_bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return fail(error_code::invalid_input, "the tokens' texts add up to more than 4 GiB",
                  "tokenizer.ggml.tokens");
    }
    bytes_end_.push_back(static_cast<std::uint32_t>(all_bytes_.size()));
    const known_control* known = find_known(text);
    const bool named_end = id == words_.eos || id == words_.eot || id == words_.eom;
    if (named_end || (known != nullptr && known->stops)) {
      stops_.push_back(id);
    }
  }
  control_and_user_tokens_ = special_tokens(std::move(special));
  user_tokens_ = special_tokens(std::move(user));

  auto pairs = byte_pairs::make(words_.tokens, may_emit, words_.merges);
  if (!pairs) {
    return tl::unexpected(pairs.error());
  }
  pairs_ = *std::move(pairs);
  words_.merges = {};  // in pairs_ now

  if (words_.add_bos.value_or(splitter_.adds_bos_by_default())) {
    leading_ = words_.bos;
  }
  return {};
}

result<std::vector<token_id>> tokenizer::encode(std::string_view text, special_text how) const {
  if (text.size() > text_limit_bytes) {
    return fail(error_code::invalid_input, "a text of " + std::to_string(text.size()) +
                                               " bytes is too long to tokenise; the limit is " +
                                               std::to_string(text_limit_bytes));
  }
  const special_tokens& specials =
      how == special_text::as_tokens ? control_and_user_tokens_ : user_tokens_;
  std::vector<token_id> ids;
  std::size_t at = 0;
  for (const auto& match : specials.find(text)) {
    if (auto done = encode_plain(text.substr(at, match.begin - at), ids); !done) {
      return tl::unexpected(done.error());
    }
    ids.push_back(match.token);
    at = match.begin + match.length;
  }
  if (auto done = encode_plain(text.substr(at), ids); !done) {
    return tl::unexpected(done.error());
  }
  return ids;
}

result<void> tokenizer::encode_plain(std::string_view text, std::vector<token_id>& out) const {
  if (text.empty()) {
    return {};
  }
  const std::string repaired = repair_utf8(text);
  auto pieces = splitter_.split(repaired);
  if (!pieces) {
    return tl::unexpected(pieces.error());
  }
  for (const std::string_view piece : *pieces) {
    if (splitter_.prefers_whole_pieces() && pairs_.append_whole(piece, out)) {
      continue;
    }
    pairs_.append(piece, out);
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
