// Takes a model's vocabulary out of its file. Any thread.
#pragma once

#include "engine/gguf/metadata.hpp"
#include "engine/tokenizer/vocabulary.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

// Copies the tokenizer's keys; `meta` is not needed afterwards. Fails when the model name, the
// tokens, the merges or the scores are missing or a key has a wrong type; what the values say is
// for tokenizer::make to check.
result<vocabulary> read_vocabulary(const gguf::metadata& meta);

}  // namespace terrane::engine
