// The alphabet in which byte-pair vocabularies spell bytes: each byte is one printable character.
// Bytes 21-7E, A1-AC and AE-FF (hexadecimal) stand for themselves as code points; the other 68 get
// U+0100 onwards in ascending order (so a space is U+0120). Source: GPT-2's published encoder,
// which every "gpt2" vocabulary follows. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrane::engine {

// The bytes, each as its character, in UTF-8.
std::string to_byte_alphabet(std::string_view bytes);

// The byte that a code point stands for.
std::optional<std::uint8_t> from_byte_alphabet(char32_t code_point);

// The bytes that a token's text stands for. A character outside the alphabet (some files add tokens
// in plain text) is kept as it is.
std::string bytes_of_token_text(std::string_view text);

}  // namespace terrane::engine
