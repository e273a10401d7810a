// SentencePiece in its byte-pair form: text is cut into characters, and the two neighbours that
// spell the token of the highest score (the leftmost of equals) are joined, until no two neighbours
// spell a token. A character without a token falls apart into the byte tokens "<0x00>" to "<0xFF>".
// Sources: Kudo and Richardson 2018 for the method; llama.cpp's tokens, which these must equal, for
// what stays a question. Takes O(n log n) for a text of n bytes. Immutable once made; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

// U+2581, which such vocabularies write for a space.
inline constexpr std::string_view space_mark = "\xE2\x96\x81";
std::string mark_spaces(std::string_view text);
std::string unmark_spaces(std::string_view text);

// The byte that the text of a byte token, such as "<0x0A>", stands for.
std::optional<std::uint8_t> byte_of_token_text(std::string_view text);

class sentence_pieces {
 public:
  sentence_pieces() = default;  // spells nothing

  // `types` is as long as `tokens`. Text becomes normal, user-defined and unused tokens only.
  // Refuses scores that are not one a token or no numbers, two tokens of equal text, and byte
  // tokens that name no byte; the message names the key and the token.
  static result<sentence_pieces> make(std::span<const std::string> tokens,
                                      std::span<const token_type> types,
                                      std::span<const float> scores);

  // Appends the tokens of a text whose spaces are marked. It need not be UTF-8: bytes that begin no
  // character go with those that their first byte announces, and become byte tokens. A character
  // that nothing spells becomes the unknown token, and is left out where there is none.
  void append(std::string_view text, std::vector<token_id>& out) const;

 private:
  struct entry {
    token_id token = none;
    float score = 0;
  };
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  struct link;
  struct candidate;
  class joining;

  const entry* find(std::string_view text) const;
  void emit(std::string_view text, std::vector<token_id>& out) const;
  void name_bytes(std::span<const std::string> tokens, std::span<const token_type> types);

  static constexpr token_id none = 0xFFFFFFFF;
  std::unordered_map<std::string, entry, text_hash, std::equal_to<>> by_text_;
  std::array<token_id, 256> token_of_byte_{};
  token_id unknown_ = none;
  std::size_t longest_text_ = 0;  // of a token, bytes
};

}  // namespace terrane::engine
