// A model file brings its chat format as a program in the Jinja language. Terrane does not run it:
// it recognises the templates of some families by the expressions that write a message, reads the
// few things in which members of a family differ, and refuses everything else. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "kernels/result.hpp"

namespace terrane::engine {

enum class chat_family {
  chatml,   // SmolLM2, Qwen2, Qwen2.5: <|im_start|>ROLE\nCONTENT<|im_end|>\n
  llama3,   // Llama 3 to 3.3: <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
  llama2,   // Llama 2: [INST] CONTENT [/INST] CONTENT </s>
  mistral,  // Mistral in five versions: [INST] CONTENT [/INST]CONTENT</s>
  gemma,    // Gemma 1 to 3: <start_of_turn>ROLE\nCONTENT<end_of_turn>\n
  phi3,     // Phi-3 and Phi-3.5: <|ROLE|>\nCONTENT<|end|>\n
};

std::string_view to_string(chat_family family);

// What stands around the content of a message. Control tokens are spelt out in it; the model's bos
// and eos tokens, which templates name without spelling them, are these two characters.
inline constexpr char bos_mark = '\x02';
inline constexpr char eos_mark = '\x03';
struct turn_markup {
  std::string before, after;
};

// What becomes of the system message, which comes first.
enum class system_place {
  own_turn,
  first_user,  // stands, with its markup, before the content of the first user message
  last_user,   // and of the last
  nowhere,     // the template has no place for one
};

struct template_facts {
  chat_family family = chat_family::chatml;
  bool begins_with_bos = false;
  bool trims_content = false;  // white space around a user's or the system's content is dropped
  bool trims_reply = false;    // and around the assistant's
  turn_markup system, user, assistant;
  std::string reply;  // the beginning of the assistant's next message, after the last one
  system_place place = system_place::own_turn;
  bool alternates = false;          // after the system message: user, assistant, user, and so on
  bool trims_with_system = false;   // Llama 2: trims the user's content with the system's before it
  bool skips_empty_system = false;  // Phi-3.5
  std::string default_system;       // ChatML: the system message of a chat that brings none
  bool has_dated_preamble = false;  // Llama 3.1 and later: a system message always, with two dates
  std::string knowledge_date;       // of the preamble, for example "December 2023"
  std::string today;                // what the template takes for today unless told
};

// Unsupported: what the template is not, and what is supported. `text` may be hostile; the time is
// linear in its length.
result<template_facts> read_template(std::string_view text);

}  // namespace terrane::engine
