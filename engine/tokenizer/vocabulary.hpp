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
  std::string model;                // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre_tokenizer;        // tokenizer.ggml.pre, for example "smollm"; of "gpt2" only
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens; of "gpt2" in the byte alphabet
  std::vector<std::int32_t> types;  // tokenizer.ggml.token_type; empty: all normal
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right", best first; "gpt2"
  std::vector<float> scores;        // tokenizer.ggml.scores, the highest joined first; "llama"
  std::optional<token_id> bos;      // tokenizer.ggml.bos_token_id, and so on
  std::optional<token_id> eos;
  std::optional<token_id> eot;
  std::optional<token_id> eom;
  std::optional<bool> add_bos;           // tokenizer.ggml.add_bos_token
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix; "llama" only
  std::string chat_template;             // tokenizer.chat_template; empty: the file has none
  std::string model_name;                // general.name; says how Phi-3 treats white space
};

}  // namespace terrane::engine
