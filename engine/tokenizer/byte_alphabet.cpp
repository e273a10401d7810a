#include "engine/tokenizer/byte_alphabet.hpp"

#include <array>

#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

constexpr char32_t first_stand_in = 0x100;
constexpr std::size_t stand_ins = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> character_of_byte = [] {
  std::array<char32_t, 256> table{};
  char32_t next = first_stand_in;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return table;
}();

constexpr std::array<std::uint8_t, stand_ins> byte_of_stand_in = [] {
  std::array<std::uint8_t, stand_ins> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) {
      table[character_of_byte[byte] - first_stand_in] = static_cast<std::uint8_t>(byte);
    }
  }
  return table;
}();

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    append_utf8(out, character_of_byte[static_cast<std::uint8_t>(c)]);
  }
  return out;
}

std::optional<std::uint8_t> from_byte_alphabet(char32_t code_point) {
  if (code_point < 256) {
    if (!stands_for_itself(static_cast<unsigned>(code_point))) {
      return std::nullopt;
    }
    return static_cast<std::uint8_t>(code_point);
  }
  if (code_point - first_stand_in >= stand_ins) {
    return std::nullopt;
  }
  return byte_of_stand_in[code_point - first_stand_in];
}

std::string bytes_of_token_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const decoded_character c = decode_character(text);
    const auto byte = c.valid ? from_byte_alphabet(c.code_point) : std::nullopt;
    if (byte) {
      out.push_back(static_cast<char>(*byte));
    } else {
      out.append(text.substr(0, c.length));
    }
    text.remove_prefix(c.length);
  }
  return out;
}

}  // namespace terrane::engine
