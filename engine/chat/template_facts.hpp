// A model file brings its chat format as a program in the Jinja language. Terrane does not run it:
// it recognises the templates of two families by the expression that writes a message, reads the
// few things in which members of a family differ, and refuses everything else. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "kernels/result.hpp"

namespace terrane::engine {

enum class chat_family {
  chatml,  // SmolLM2, Qwen2, Qwen2.5: <|im_start|>ROLE\nCONTENT<|im_end|>\n
  llama3,  // Llama 3 to 3.3: <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
};

struct template_facts {
  chat_family family = chat_family::chatml;
  bool begins_with_bos = false;
  bool trims_content = false;       // white space around a message's content is dropped
  std::string default_system;       // ChatML: the system message of a chat that brings none
  bool has_dated_preamble = false;  // Llama 3.1 and later: a system message always, with two dates
  std::string knowledge_date;       // of the preamble, for example "December 2023"
  std::string today;                // what the template takes for today unless told
};

// Unsupported: what the template is not, and what is supported. `text` may be hostile; the time is
// linear in its length.
result<template_facts> read_template(std::string_view text);

}  // namespace terrane::engine
