// Cuts text into the pieces within which byte pairs are merged. How is named by the model file
// (tokenizer.ggml.pre); an unknown name is refused, because a wrong cut loses quality in silence.
// To add one, add a row to the table in pre_tokenizer_rules.cpp. Immutable once made; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/result.hpp"

namespace terrane::engine {

class pre_tokenizer {
 public:
  // Unsupported: the name is not known; the message lists those that are.
  static result<pre_tokenizer> make(std::string_view name);

  // The pieces, in order, without gaps; they are views into `text`, which must have passed
  // repair_utf8. Fails only when the regular-expression library gives up (it is out of memory).
  result<std::vector<std::string_view>> split(std::string_view text) const;

  // A piece that is a token as a whole stays one, whatever the merges say.
  bool prefers_whole_pieces() const { return prefers_whole_pieces_; }

  // What holds when the file does not say whether a prompt begins with the bos token.
  bool adds_bos_by_default() const { return adds_bos_by_default_; }

 private:
  pre_tokenizer() = default;

  // Compiled PCRE2 patterns; immutable, so copies share them.
  std::vector<std::shared_ptr<const void>> patterns_;
  bool prefers_whole_pieces_ = false;
  bool adds_bos_by_default_ = false;
};

}  // namespace terrane::engine
