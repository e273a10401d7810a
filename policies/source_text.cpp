#include "policies/source_text.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace terrane::policies {

namespace {

// Bytes of the character that `text` begins with; 0 when it is malformed.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  // Neither overlong forms, nor surrogates, nor anything above U+10FFFF.
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < bytes; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return bytes;
}

std::string hexadecimal(char byte) {
  char digits[3];
  std::snprintf(digits, sizeof digits, "%02X", static_cast<std::uint8_t>(byte));
  return digits;
}

}  // namespace

std::string with_escapes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      out += "\\x" + hexadecimal(text[0]);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return out;
}

std::optional<diagnostic> find_not_utf8(const std::string& name, std::string_view text) {
  std::size_t at = 0, line_begins = 0;
  int line = 1;
  while (at < text.size()) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) {
      return diagnostic{
          severity::error,
          {name, line, static_cast<int>(at - line_begins) + 1},
          "the byte " + hexadecimal(text[at]) + " is not UTF-8; save the file as UTF-8"};
    }
    if (text[at] == '\n') {
      line_begins = at + 1;
      ++line;
    }
    at += bytes;
  }
  return std::nullopt;
}

}  // namespace terrane::policies
