// A vocabulary small enough to read: all 256 bytes, a few merges, a few special tokens.
#pragma once

#include <string>
#include <vector>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace terrane::engine::test {

// Ids 0-255 are the bytes. Then the merges' results, then `<|im_start|>`, `<|im_end|>`, the
// user-defined "<user>", the control token "abc" that merging "ab" and "c" would spell, and a row
// without text.
inline vocabulary small_vocabulary() {
  vocabulary words;
  words.model = "gpt2";
  words.pre_tokenizer = "gpt-2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    words.tokens.push_back(to_byte_alphabet({&c, 1}));
  }
  words.merges = {"b c", "a b", "h e", "l l", "he ll", "Ġ hell", "ab c"};
  for (const char* text : {"bc", "ab", "he", "ll", "hell", "Ġhell"}) {
    words.tokens.emplace_back(text);
  }
  words.types.assign(words.tokens.size(), 1);
  const auto add = [&](const char* text, token_type type) {
    words.tokens.emplace_back(text);
    words.types.push_back(static_cast<int>(type));
  };
  add("<|im_start|>", token_type::control);
  add("<|im_end|>", token_type::control);
  add("<user>", token_type::user_defined);
  add("abc", token_type::control);
  add("", token_type::unused);
  words.bos = 262;
  words.eos = 263;
  return words;
}

inline constexpr token_id bc = 256, ab = 257, he = 258, ll = 259, hell = 260, space_hell = 261;
inline constexpr token_id im_start = 262, im_end = 263, user = 264, control_abc = 265, empty = 266;

}  // namespace terrane::engine::test
