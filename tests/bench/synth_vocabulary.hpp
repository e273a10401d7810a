// A small valid byte-level BPE vocabulary of any size: the 256 bytes, merges of some common words,
// invented words up to the size, and special tokens. Enough to encode and decode any text, so that
// a model of random weights can be driven like a real one. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrane::bench {

struct synthetic_vocabulary {
  std::vector<std::string> tokens;        // in GPT-2's byte alphabet
  std::vector<std::int32_t> token_types;  // as in tokenizer.ggml.token_type: 1 normal, 3 control
  std::vector<std::string> merges;        // "left right", by rank
  std::uint32_t begin_of_text = 0;
  std::uint32_t end_of_text = 0;
  std::uint32_t end_of_turn = 0;  // <|im_end|>
};

// `size` is at least 260: the bytes and the special tokens.
synthetic_vocabulary make_vocabulary(std::uint32_t size);

// The template that chats are formatted with: ChatML.
extern const char* const chat_ml_template;

}  // namespace terrane::bench
