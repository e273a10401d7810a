#include "engine/tokenizer/known_tokens.hpp"

#include <algorithm>
#include <iterator>

namespace terrane::engine {
namespace {

constexpr known_token known_tokens[] = {
    // ChatML, Llama 3, Phi 3
    {"<|im_start|>"},
    {"<|im_end|>", true},
    {"<|endoftext|>", true},
    {"<|begin_of_text|>"},
    {"<|end_of_text|>", true},
    {"<|start_header_id|>"},
    {"<|end_header_id|>"},
    {"<|eot_id|>", true},
    {"<|eom_id|>", true},
    {"<|system|>"},
    {"<|user|>"},
    {"<|assistant|>"},
    {"<|end|>", true},
    // Gemma
    {"<start_of_turn>"},
    {"<end_of_turn>", true},
    // Llama 2 and Mistral
    {"<s>", false, true},
    {"</s>", true, true},
    {"[INST]"},
    {"[/INST]"},
    {"[SYSTEM_PROMPT]"},
    {"[/SYSTEM_PROMPT]"},
    // DeepSeek
    {"<\xEF\xBD\x9C"
     "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     true},
};

}  // namespace

const known_token* find_known_token(std::string_view text, token_id id, bool sentence_pieces) {
  const bool may_be_its_own = sentence_pieces && id < 3;
  const auto* at =
      std::find_if(std::begin(known_tokens), std::end(known_tokens), [&](const known_token& known) {
        return known.text == text && (may_be_its_own || !known.of_sentence_piece);
      });
  return at == std::end(known_tokens) ? nullptr : at;
}

}  // namespace terrane::engine
