#include "policies/lua/sandbox_lexer.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace terrane::policies::lua {
namespace {

// In order, for binary search.
constexpr std::array<std::string_view, 22> keywords = {
    "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_continuation(char c) { return (c & 0xC0) == 0x80; }  // of a UTF-8 character
bool is_newline(char c) { return c == '\n' || c == '\r'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || is_newline(c); }

}  // namespace

char lexer::peek(std::size_t ahead) const {
  return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
}

// Steps over one byte, or over one line end: "\n", "\r", "\r\n" and "\n\r" each count once.
void lexer::advance() {
  const char c = source_[at_++];
  if (!is_newline(c)) return;
  if (is_newline(peek()) && peek() != c && at_ < source_.size()) ++at_;
  ++line_;
  line_begin_ = at_;
}

token lexer::finish(token t, token_kind kind) {
  t.kind = kind;
  t.end = at_;
  t.text = source_.substr(t.begin, t.end - t.begin);
  return t;
}

token lexer::fail(token t, std::string problem) {
  problem_ = std::move(problem);
  return finish(t, token_kind::invalid);
}

// At "[", "[=" ...: steps over the whole long bracket. False when the text is no long bracket
// (nothing is skipped) or never closed (at_ is then the end).
bool lexer::skip_long_bracket() {
  std::size_t level = 0;
  while (peek(1 + level) == '=') ++level;
  if (peek(1 + level) != '[') return false;
  std::string closing(level + 2, '=');
  closing.front() = closing.back() = ']';
  const std::size_t close = source_.find(closing, at_ + level + 2);
  const std::size_t stop =
      close == std::string_view::npos ? source_.size() : close + closing.size();
  while (at_ < stop) advance();
  return close != std::string_view::npos;
}

// A comment that is never closed ends at the end of the source; Lua reports it.
void lexer::skip_blanks_and_comments() {
  while (at_ < source_.size()) {
    if (is_blank(peek())) {
      advance();
    } else if (peek() == '-' && peek(1) == '-') {
      at_ += 2;
      if (peek() == '[' && skip_long_bracket()) continue;
      while (at_ < source_.size() && !is_newline(peek())) ++at_;
    } else {
      return;
    }
  }
}

// After a backslash. Only what could hide the closing quote or a line end matters here.
void lexer::skip_escape() {
  if (at_ >= source_.size()) return;
  const bool skips_blanks = peek() == 'z';
  advance();
  while (skips_blanks && at_ < source_.size() && is_blank(peek())) advance();
}

bool lexer::skip_quoted() {
  const char quote = source_[at_++];
  while (at_ < source_.size() && !is_newline(peek())) {
    const char c = source_[at_++];
    if (c == quote) return true;
    if (c == '\\') skip_escape();
  }
  return false;
}

// As Lua reads numerals: greedily, so that "3..2" is one malformed number, which Lua reports.
void lexer::skip_number() {
  const bool hexadecimal = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
  if (hexadecimal) at_ += 2;
  const char lower = hexadecimal ? 'p' : 'e';
  const char upper = hexadecimal ? 'P' : 'E';
  while (is_digit(peek()) || is_letter(peek()) || peek() == '.') {
    const bool exponent = peek() == lower || peek() == upper;
    ++at_;
    if (exponent && (peek() == '+' || peek() == '-')) ++at_;
  }
}

// 0 when no symbol begins here.
std::size_t lexer::symbol_length() const {
  constexpr std::string_view alone = "+-*%^#&|(){}[];,";
  const char c = peek();
  const bool doubled = peek(1) == c;
  switch (c) {
    case '.':
      return doubled && peek(2) == c ? 3 : doubled ? 2 : 1;
    case '/':
    case ':':
      return doubled ? 2 : 1;
    case '=':
    case '~':
      return peek(1) == '=' ? 2 : 1;
    case '<':
    case '>':
      return doubled || peek(1) == '=' ? 2 : 1;
    default:
      return alone.find(c) == std::string_view::npos ? 0 : 1;
  }
}

token lexer::next() {
  skip_blanks_and_comments();
  token t;
  t.begin = at_;
  t.line = line_;
  t.column = static_cast<int>(at_ - line_begin_) + 1;
  if (at_ >= source_.size()) return finish(t, token_kind::end);
  const char c = peek();
  if (is_letter(c)) {
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    const std::string_view word = source_.substr(t.begin, at_ - t.begin);
    const bool reserved = std::binary_search(keywords.begin(), keywords.end(), word);
    return finish(t, reserved ? token_kind::keyword : token_kind::name);
  }
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
    skip_number();
    return finish(t, token_kind::number);
  }
  if (c == '"' || c == '\'') {
    return skip_quoted() ? finish(t, token_kind::string)
                         : fail(t, "a string is not closed on its line");
  }
  if (c == '[' && (peek(1) == '[' || peek(1) == '=')) {
    if (skip_long_bracket()) return finish(t, token_kind::string);
    if (at_ == source_.size()) return fail(t, "a long string is not closed");
  }
  const std::size_t length = symbol_length();
  if (length == 0) {
    do {
      ++at_;
    } while (is_continuation(peek()));
    return fail(t, "a character that Lua does not know");
  }
  at_ += length;
  return finish(t, token_kind::symbol);
}

}  // namespace terrane::policies::lua
