// What a model file says about its tokens, as plain values: the input of class tokenizer. Filled by
// read_vocabulary (from_gguf.hpp) or by hand in a test. Nothing here is checked; tokenizer::make
// checks all of it. The names in the comments are the file's metadata keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace terrane::engine {

// A row of the embedding and of the logits.
using token_id = std::uint32_t;

// tokenizer.ggml.token_type. The values are the file format's.
enum class token_type : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       // steers the model; never part of a user's text
  user_defined = 4,  // found in text before everything else
  unused = 5,
  byte = 6,
};

struct vocabulary {
  std::string model;                // tokenizer.ggml.model, for example "gpt2"
  std::string pre_tokenizer;        // tokenizer.ggml.pre, for example "smollm"
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, in the byte alphabet
  std::vector<std::int32_t> types;  // tokenizer.ggml.token_type; empty: all normal
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right", best first
  std::optional<token_id> bos;      // tokenizer.ggml.bos_token_id, and so on
  std::optional<token_id> eos;
  std::optional<token_id> eot;
  std::optional<token_id> eom;
  std::optional<bool> add_bos;  // tokenizer.ggml.add_bos_token
  std::string chat_template;    // tokenizer.chat_template; empty: the file has none
};

}  // namespace terrane::engine
