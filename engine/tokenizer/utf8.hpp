// UTF-8 at the tokenizer's two edges: any bytes in, whole characters out. utf8_stream belongs to
// one reply and one thread; the functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terrane::engine {

struct decoded_character {
  char32_t code_point = 0;
  std::size_t length = 1;  // bytes; 1 when not valid
  bool valid = false;
};

// The first character of `text`, which must not be empty. Lenient: overlong forms and surrogates
// are decoded, code points above U+10FFFF are not valid.
decoded_character decode_character(std::string_view text);

// Appends a code point up to U+10FFFF. A surrogate is written as three bytes.
void append_utf8(std::string& out, char32_t code_point);

// The text a prompt's bytes stand for: each byte that begins no character becomes U+FFFD, and
// overlong forms become the short ones. Surrogates stay. llama.cpp reads prompts this way, and the
// token ids must be equal.
std::string repair_utf8(std::string_view bytes);

// Turns the bytes of a reply, token by token, into text that ends at character boundaries: an
// incomplete character waits for its rest. Bytes that can no longer become a character are sent as
// U+FFFD, one for each maximal subpart (The Unicode Standard, section 3.9). Strict: overlong forms,
// surrogates and code points above U+10FFFF are not let through.
class utf8_stream {
 public:
  // Takes more bytes and returns what can be sent now, perhaps nothing. The view holds until the
  // next call. Allocates only when one call brings more text than any before.
  std::string_view push(std::string_view bytes);

  // The reply has ended: what still waits becomes one U+FFFD. The stream is as new afterwards.
  std::string_view finish();

 private:
  void accept(std::uint8_t byte);
  void begin(std::uint8_t byte);
  void give_up();

  std::string ready_;
  std::string waiting_;                      // an incomplete character, at most 3 bytes
  int missing_ = 0;                          // bytes it still needs
  std::uint8_t least_ = 0x80, most_ = 0xBF;  // what the next byte may be
};

}  // namespace terrane::engine
