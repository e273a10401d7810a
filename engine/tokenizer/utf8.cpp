#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

}  // namespace

decoded_character decode_character(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  if (lead < 0x80) {
    return {lead, 1, true};
  }
  if (lead < 0xC0 || lead >= 0xF8) {
    return {};
  }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) {
    return {};
  }
  char32_t code_point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) {
      return {};
    }
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  if (code_point > 0x10FFFF) {
    return {};
  }
  return {code_point, length, true};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto byte = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  const auto continuation = [&](int shift) { byte(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    byte(0xE0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    byte(0xF0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const decoded_character c = decode_character(bytes);
    append_utf8(out, c.valid ? c.code_point : 0xFFFD);
    bytes.remove_prefix(c.length);
  }
  return out;
}

std::string_view utf8_stream::push(std::string_view bytes) {
  ready_.clear();
  for (const char c : bytes) {
    accept(static_cast<std::uint8_t>(c));
  }
  return ready_;
}

std::string_view utf8_stream::finish() {
  ready_.clear();
  if (missing_ > 0) {
    give_up();
  }
  return ready_;
}

void utf8_stream::accept(std::uint8_t byte) {
  if (missing_ > 0 && (byte < least_ || byte > most_)) {
    give_up();
  }
  if (missing_ == 0) {
    begin(byte);
    return;
  }
  waiting_.push_back(static_cast<char>(byte));
  least_ = 0x80;
  most_ = 0xBF;
  if (--missing_ == 0) {
    ready_.append(waiting_);
    waiting_.clear();
  }
}

// The table of well-formed byte sequences (The Unicode Standard, table 3-7): the second byte's
// range is what excludes overlong forms, surrogates and what lies above U+10FFFF.
void utf8_stream::begin(std::uint8_t byte) {
  if (byte < 0x80) {
    ready_.push_back(static_cast<char>(byte));
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    ready_.append(replacement);
    return;
  }
  missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  least_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  most_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  waiting_.push_back(static_cast<char>(byte));
}

void utf8_stream::give_up() {
  ready_.append(replacement);
  waiting_.clear();
  missing_ = 0;
}

}  // namespace terrane::engine
