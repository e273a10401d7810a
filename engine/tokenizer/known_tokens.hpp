// Control tokens that are known by name. A file that gives one of them another type is wrong, and
// would let text spell it; so they are control tokens whatever it says. Pure; any thread.
#pragma once

#include <string_view>

#include "engine/tokenizer/vocabulary.hpp"

namespace terrane::engine {

struct known_token {
  std::string_view text;
  bool stops = false;  // a reply ends with it
  // Only among the first three tokens of a SentencePiece vocabulary, which are its own unknown, bos
  // and eos. Elsewhere it is text: "<s>" and "</s>" are tags of HTML in the vocabularies of Gemma
  // and Qwen.
  bool of_sentence_piece = false;
};

// Null: not known. `sentence_pieces` says which kind of vocabulary has the text as token `id`.
const known_token* find_known_token(std::string_view text, token_id id, bool sentence_pieces);

}  // namespace terrane::engine
