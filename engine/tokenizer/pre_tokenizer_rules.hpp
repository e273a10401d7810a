// The pre-tokenizers that are known, as data: the regular expressions with which each cuts text, in
// PCRE2's language, and what else goes with the name. Every row was compared with the program that
// its vocabulary was made for or with llama.cpp (tests/golden/README.md says which); a row that
// cannot be is not added. Constant; any thread.
#pragma once

#include <span>
#include <string_view>

namespace terrane::engine {

struct pre_tokenizer_rule {
  std::string_view name;
  // Applied one after another: each cuts the pieces that the one before has left into what it
  // matches and what lies between. No pattern sees beyond its piece.
  std::span<const char* const> patterns;
  bool prefers_whole_pieces = false;  // see pre_tokenizer
  bool adds_bos_by_default = false;
};

std::span<const pre_tokenizer_rule> pre_tokenizer_rules();

}  // namespace terrane::engine
