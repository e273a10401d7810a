// Splits Lua 5.4 source into tokens by the rules of the reference manual, section 3.1, with byte
// offsets, lines and columns. The rewriter needs only the kinds and the places: values of numbers
// and strings are left to Lua. Holds a view of the source, which must outlive it; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace terrane::policies::lua {

enum class token_kind { end, name, keyword, number, string, symbol, invalid };

struct token {
  token_kind kind = token_kind::end;
  std::size_t begin = 0;  // byte offsets into the source
  std::size_t end = 0;
  int line = 1;    // of its first byte, from 1
  int column = 1;  // in bytes, from 1
  std::string_view text;
};

class lexer {
 public:
  explicit lexer(std::string_view source) : source_(source) {}

  // The next token. An invalid one carries what is wrong in problem().
  token next();

  const std::string& problem() const { return problem_; }

 private:
  void skip_blanks_and_comments();
  void advance();
  char peek(std::size_t ahead = 0) const;
  bool skip_long_bracket();
  bool skip_quoted();
  void skip_escape();
  void skip_number();
  std::size_t symbol_length() const;
  token finish(token t, token_kind kind);
  token fail(token t, std::string problem);

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_begin_ = 0;
  std::string problem_;
};

}  // namespace terrane::policies::lua
