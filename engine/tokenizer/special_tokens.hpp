// Finds the special tokens that text spells out, before byte pairs see the rest. Longer ones win
// over shorter ones wherever they overlap, and of one token the leftmost: llama.cpp's order, which
// the token ids must equal. Immutable once made; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"

namespace terrane::engine {

class special_tokens {
 public:
  struct match {
    std::size_t begin = 0;   // in the text, bytes
    std::size_t length = 0;  // bytes
    token_id token = 0;
  };

  special_tokens() = default;

  // The texts must be unique and not empty; they are copied.
  explicit special_tokens(std::vector<std::pair<std::string, token_id>> tokens);

  // In order of `begin`, not overlapping.
  std::vector<match> find(std::string_view text) const;

 private:
  match longest(std::string_view text, std::size_t begin, std::size_t limit) const;

  std::vector<std::pair<std::string, token_id>> tokens_;  // sorted by text
};

}  // namespace terrane::engine
