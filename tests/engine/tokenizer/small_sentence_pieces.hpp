// A SentencePiece vocabulary small enough to read: the three special tokens, all 256 bytes, a few
// pieces with scores, a user-defined token.
#pragma once

#include <string>

#include "engine/tokenizer/vocabulary.hpp"

namespace terrane::engine::test::pieces {

inline constexpr token_id unknown = 0, bos = 1, eos = 2, first_byte = 3;
inline constexpr token_id mark = 259, h = 260, e = 261, l = 262, o = 263, he = 264, ll = 265,
                          mark_he = 266, hell = 267, lo = 268, marks = 269, user = 270;

inline vocabulary small_vocabulary() {
  vocabulary words;
  words.model = "llama";
  const auto add = [&](const std::string& text, token_type type, float score) {
    words.tokens.push_back(text);
    words.types.push_back(static_cast<int>(type));
    words.scores.push_back(score);
  };
  add("<unk>", token_type::unknown, 0);
  add("<s>", token_type::control, 0);
  add("</s>", token_type::control, 0);
  for (int byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    add({'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'}, token_type::byte, 0);
  }
  for (const char* text : {"\u2581", "h", "e", "l", "o"}) {
    add(text, token_type::normal, -100);
  }
  add("he", token_type::normal, -1);
  add("ll", token_type::normal, -2);
  add("\u2581he", token_type::normal, -3);
  add("hell", token_type::normal, -4);
  add("lo", token_type::normal, -1.5F);
  add("\u2581\u2581", token_type::normal, -5);
  add("<user>", token_type::user_defined, 0);
  words.bos = bos;
  words.eos = eos;
  return words;
}

}  // namespace terrane::engine::test::pieces
