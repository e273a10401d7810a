#include "policies/explain/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace terrane::policies {
namespace {

// The length of the UTF-8 character at the front (RFC 3629), 0 when there is none.
std::size_t character_length(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || s.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool too_high = first == 0xf4 && second > 0x8f;
  return overlong || surrogate || too_high ? 0 : length;
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
    out += "\\u00";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  } else {
    out += c;
  }
}

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void json_writer::separate() {
  if (text_.empty()) return;
  const char last = text_.back();
  if (last != '{' && last != '[' && last != ':') text_ += ',';
}

json_writer& json_writer::begin_object() {
  separate();
  text_ += '{';
  return *this;
}

json_writer& json_writer::end_object() {
  text_ += '}';
  return *this;
}

json_writer& json_writer::begin_array() {
  separate();
  text_ += '[';
  return *this;
}

json_writer& json_writer::end_array() {
  text_ += ']';
  return *this;
}

json_writer& json_writer::key(std::string_view name) {
  value(name);
  text_ += ':';
  return *this;
}

json_writer& json_writer::value(std::string_view s) {
  separate();
  text_ += '"';
  while (!s.empty()) {
    const std::size_t length = character_length(s);
    if (length == 1) {
      append_escaped(text_, s.front());
    } else if (length == 0) {
      text_ += "\uFFFD";
    } else {
      text_ += s.substr(0, length);
    }
    s.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
  return *this;
}

json_writer& json_writer::value(bool b) {
  separate();
  text_ += b ? "true" : "false";
  return *this;
}

json_writer& json_writer::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  append_number(text_, number);
  return *this;
}

json_writer& json_writer::value(std::int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

json_writer& json_writer::value(std::uint64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

json_writer& json_writer::null() {
  separate();
  text_ += "null";
  return *this;
}

}  // namespace terrane::policies
