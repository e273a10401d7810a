// A model's tokenizer: text to tokens and back, by the vocabulary in the model's file. Supported:
// tokenizer.ggml.model "gpt2" (byte pairs) with the pre-tokenizers listed by pre_tokenizer::make,
// and "llama" (SentencePiece). Token ids equal llama.cpp's (tests/golden). Owns its vocabulary;
// immutable once made, so any number of threads may use one.
//
// Text from a user is encoded with special_text::as_text: then no text can become a control token,
// whatever it spells and whatever the file's merges say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tokenizer/byte_pairs.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/sentence_pieces.hpp"
#include "engine/tokenizer/special_tokens.hpp"
#include "engine/tokenizer/vocabulary.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

// What becomes of text that spells a control token, such as "<|im_end|>".
enum class special_text {
  as_text,    // it is ordinary text
  as_tokens,  // it is the token
};

// What stands before a text that is encoded by itself: nothing, other text, or a special token.
struct text_seam {
  bool continues_text = false;  // SentencePiece then puts no space before it
  std::optional<token_id> special;
};

class tokenizer {
 public:
  // Checks the whole vocabulary. Unsupported: the model or pre-tokenizer is not known. Invalid
  // input: no tokens, lists of unequal length, an id or type out of range, texts that repeat, a
  // malformed merge, a score that is no number, bos asked for but not named. Messages name the
  // metadata key.
  static result<tokenizer> make(vocabulary words);

  tokenizer(tokenizer&&) = default;
  tokenizer& operator=(tokenizer&&) = default;
  tokenizer(const tokenizer&) = delete;
  tokenizer& operator=(const tokenizer&) = delete;

  // The tokens of any bytes at all. What is not UTF-8 is read as repair_utf8 says by byte pairs and
  // kept by SentencePiece. No bos is added; the space that SentencePiece puts before a text is.
  // User-defined tokens are found in either mode. Fails only as pre_tokenizer::split does, or for
  // more than 64 MiB of text.
  result<std::vector<token_id>> encode(std::string_view text, special_text how,
                                       const text_seam& before = {}) const;

  // The bos token if a raw prompt begins with one. A formatted chat brings its own.
  std::optional<token_id> leading_token() const { return leading_; }

  // What a token adds to a reply, in bytes that may end inside a character (utf8_stream joins
  // them). Empty for control, unknown and unused tokens and for rows beyond the vocabulary, which a
  // model's logits may have.
  std::string_view bytes(token_id id) const;

  // The token's text as the file spells it; empty beyond the vocabulary.
  std::string_view text(token_id id) const;

  // The bytes of a whole sequence.
  std::string decode(std::span<const token_id> ids) const;

  // Whether a reply ends with this token: eos, eot and eom of the file, and the ends of turn and
  // text that are known by name (see tokenizer.cpp).
  bool is_stop(token_id id) const;
  std::span<const token_id> stop_tokens() const { return stops_; }

  bool is_control(token_id id) const;

  // The control token with this text.
  std::optional<token_id> find_control(std::string_view text) const;

  std::size_t size() const { return words_.tokens.size(); }
  const vocabulary& words() const { return words_; }

 private:
  struct split_pairs {
    pre_tokenizer splitter;
    byte_pairs pairs;
  };

  explicit tokenizer(vocabulary words) : words_(std::move(words)) {}
  result<void> check_and_index();
  result<void> index_bytes();
  void index_special();
  result<void> make_method();
  bool strips_after(token_id special) const;
  result<void> encode_between(std::string_view text, bool continues_text,
                              std::vector<token_id>& out) const;

  vocabulary words_;
  std::vector<token_type> types_;
  std::variant<sentence_pieces, split_pairs> method_;
  bool adds_space_prefix_ = false;
  bool strips_after_special_ = false;
  special_tokens control_and_user_tokens_;  // both kinds, and unknown
  special_tokens user_tokens_;
  std::optional<token_id> leading_;
  std::vector<token_id> stops_;           // ascending
  std::string all_bytes_;                 // of every token, one after another
  std::vector<std::uint32_t> bytes_end_;  // where each token's bytes end in all_bytes_
};

}  // namespace terrane::engine
