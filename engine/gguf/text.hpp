// Text out of an untrusted file: is it UTF-8, and how to show it in a message without letting it
// break a log line or a terminal. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace terrane::engine::gguf {

// Well-formed UTF-8 by the Unicode standard: no overlong forms, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view text);

// In single quotes, at most 80 bytes of it, control and non-ASCII bytes as \xNN.
std::string shown(std::string_view text);

}  // namespace terrane::engine::gguf
