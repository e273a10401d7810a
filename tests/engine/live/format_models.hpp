// The two tiny Llamas of tests/golden/make_formats.py in every weight format: their files made
// again from the rows that llama.cpp quantised (tests/golden/formats.gguf) and a generator of
// integers, and llama.cpp's logits on them. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf/file.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace terrane::test {

// Logits of the last tokens of the prompt, one after another.
struct format_logits {
  std::vector<float> on_file;  // llama.cpp on the model as it is
  std::vector<float> exact;    // llama.cpp on the same weights in F32
};

class format_goldens {
 public:
  format_goldens();

  // A model with rows of `k` weights (256 or 576) whose matrices have the format, or, for "mixed",
  // the formats in turn. Returns its path; made once a process.
  std::string model(const std::string& format, std::uint64_t k);
  format_logits logits(const std::string& format, std::uint64_t k) const;
  static std::vector<engine::token_id> prompt();
  static constexpr std::uint32_t vocabulary = 260, kept_tokens = 4;

 private:
  // The rows of the bank in a format, as stored.
  std::vector<std::byte> bank(const std::string& format, std::uint64_t k) const;
  std::vector<std::byte> contents(const std::string& tensor) const;

  engine::gguf::file file_;
};

}  // namespace terrane::test
