// Writes one JSON text, piece by piece, with commas and escapes in the right places. What is no
// UTF-8 becomes U+FFFD, so the text is always valid. One thread; owns the text it builds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terrane::policies {

class json_writer {
 public:
  json_writer& begin_object();
  json_writer& end_object();
  json_writer& begin_array();
  json_writer& end_array();
  json_writer& key(std::string_view name);
  json_writer& value(std::string_view text);
  json_writer& value(const char* text) { return value(std::string_view(text)); }
  json_writer& value(bool b);
  json_writer& value(double number);  // null when it is not finite
  json_writer& value(std::int64_t number);
  json_writer& value(std::uint64_t number);
  json_writer& value(int number) { return value(std::int64_t{number}); }
  json_writer& null();

  template <class T>
  json_writer& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

  const std::string& text() const { return text_; }

 private:
  void separate();

  std::string text_;
};

}  // namespace terrane::policies
