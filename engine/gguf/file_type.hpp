// What a model's file calls the mixture of formats that its weights are in. Pure; any thread.
#pragma once

#include <string_view>

#include "engine/gguf/metadata.hpp"

namespace terrane::engine::gguf {

// "Q4_K_M", by general.file_type as the GGUF specification and llama.cpp number these; empty where
// the file does not say, or says what has no name here.
std::string_view file_type_name(const metadata& of);

}  // namespace terrane::engine::gguf
