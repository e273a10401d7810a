// Byte-pair encoding of one piece of text: bytes are joined pair by pair, always the pair whose
// merge stands earliest in the model's list (the leftmost of equals), until no pair has a merge.
// Source of the method: Sennrich, Haddow and Birch 2016, in GPT-2's byte-level form. Takes O(n log
// n) for a piece of n bytes. Immutable once made; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

class byte_pairs {
 public:
  byte_pairs() = default;  // spells nothing

  // `may_emit[id]` says whether plain text may become that token: false for control tokens, so that
  // no text can spell one. Refuses an empty or too long token list, two tokens of equal text, and a
  // merge that is not two parts; the message names the entry.
  static result<byte_pairs> make(const std::vector<std::string>& tokens,
                                 const std::vector<bool>& may_emit,
                                 const std::vector<std::string>& merges);

  // Appends the tokens of a piece. A byte that no token spells is left out, as llama.cpp does; such
  // vocabularies exist (SmolLM2 has no token for the byte 04).
  void append(std::string_view piece, std::vector<token_id>& out) const;

  // Appends the token that spells the whole piece; false if there is none.
  bool append_whole(std::string_view piece, std::vector<token_id>& out) const;

 private:
  // A string that merging can meet: a token, or what a merge names although it is no token. The
  // symbols of tokens have the tokens' ids.
  using symbol = std::uint32_t;
  struct merge {
    std::uint32_t rank = 0;
    symbol joined = 0;
  };
  struct link;
  struct candidate;

  symbol intern(const std::string& text);
  void emit(symbol s, std::vector<token_id>& out) const;
  const merge* find(symbol left, symbol right) const;

  static constexpr token_id none = 0xFFFFFFFF;
  std::unordered_map<std::uint64_t, merge> merges_;  // left << 32 | right
  std::array<symbol, 256> symbol_of_byte_{};
  std::vector<token_id> token_of_symbol_;                    // none: falls apart into its bytes
  std::unordered_map<symbol, std::string> bytes_of_symbol_;  // of those that fall apart
  std::unordered_map<std::string, symbol> symbol_of_text_;   // texts in the byte alphabet
  std::size_t longest_text_ = 0;                             // of a token, bytes
};

}  // namespace terrane::engine
