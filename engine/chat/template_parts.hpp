// Takes a Jinja template apart into what it writes and what it decides, in one spelling, so that
// equal expressions are equal text. Nothing is run. Pure; any thread; the time is linear in the
// length of the template, which may be hostile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrane::engine {

// The whole template with no white space outside string literals, no dashes at the ends of tags,
// literals in single quotes with \n for a line end, and a message's fields in brackets.
std::string spelling_of_template(std::string_view text);

struct template_parts {
  std::vector<std::string> outputs;     // the insides of {{ }}, spelt as above, in order
  std::vector<std::string> statements;  // the insides of {% %}
  // What stands outside of tags and would be written, by the rules for white space that Hugging
  // Face's apply_chat_template sets (trim_blocks, lstrip_blocks).
  std::string text;
};

template_parts parts_of_template(std::string_view text);

}  // namespace terrane::engine
