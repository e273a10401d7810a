// The rewriting of operators: the text that Lua then compiles, which sources are refused and where.
#include <string>

#include <gtest/gtest.h>

#include "policies/lua/sandbox_rewriter.hpp"

namespace terrane::policies::lua {
namespace {

constexpr std::string_view prologue =
    "local __terrane_power,__terrane_concat,__terrane_length,__terrane_iterate=...;";

// The rewritten source with short names for the functions.
std::string rewritten(std::string_view source) {
  const auto text = rewrite(source, 1000);
  if (!text) {
    return std::to_string(text.error().line) + ":" + std::to_string(text.error().column) + ": " +
           text.error().message;
  }
  EXPECT_EQ(text->substr(0, prologue.size()), prologue);
  std::string shown = text->substr(prologue.size());
  for (const auto& [name, letter] : {std::pair{"__terrane_power", "P"},
                                     {"__terrane_concat", "C"},
                                     {"__terrane_length", "L"},
                                     {"__terrane_iterate", "I"}}) {
    for (std::size_t at; (at = shown.find(name)) != std::string::npos;) {
      shown.replace(at, std::string_view(name).size(), letter);
    }
  }
  return shown;
}

TEST(lua_sandbox_rewriter, leaves_other_code_alone) {
  const char* const sources[] = {
      "",
      "-- # .. ^",
      "--[==[ a .. b ]] ]==] x = 1",
      "x = 'a .. b ^ #c' y = \"\\\" # \" z = [[ # ]] w = [=[ ]] # ]=]",
      "x = '\\z  \n  # ' y = 'a\\\n#'",
      "local function f(...) return ... end",
      "for i = 1, 10, 2 do break end",
      "goto done do end ::done::",
      "local a <const>, b = 1, 2; a.b.c[d]:e{f = g, [h] = i; 'j'} 'k' [[l]]",
      "if a then elseif b then else end while c do end repeat until d",
      "x = - - not ~a + b * c // d % e & f | g ~ h << i >> j ~= k == l <= m >= n < o > p and q or "
      "r",
      "function a.b.c:d(e, ...) return function() end, {} end",
      "x = 0x1p-4 + 1e+10 + .5 + 3. return",
      "return x;",
  };
  for (const char* const source : sources) EXPECT_EQ(rewritten(source), source);
}

TEST(lua_sandbox_rewriter, replaces_operators) {
  EXPECT_EQ(rewritten("x = a ^ b"), "x = P(a , b)");
  EXPECT_EQ(rewritten("x = a ^ b ^ c"), "x = P(a , P(b , c))");
  EXPECT_EQ(rewritten("x = -a ^ -b"), "x = -P(a , -b)");
  EXPECT_EQ(rewritten("x = a * b ^ c + d"), "x = a * P(b , c) + d");
  EXPECT_EQ(rewritten("x = a .. b .. c"), "x = C(a , b , c)");
  EXPECT_EQ(rewritten("x = a + b .. c == d"), "x = C(a + b , c) == d");
  EXPECT_EQ(rewritten("x = a ^ b .. c ^ d"), "x = C(P(a , b) , P(c , d))");
  EXPECT_EQ(rewritten("x=a..b"), "x=C(a,b)");
  EXPECT_EQ(rewritten("x = #a"), "x = L(a)");
  EXPECT_EQ(rewritten("x = ##a + #a.b[#c]:d(#e)"), "x = L(L(a)) + L(a.b[L(c)]:d(L(e)))");
  EXPECT_EQ(rewritten("x = #a ^ b"), "x = L(P(a , b))");
  EXPECT_EQ(rewritten("x = a ^ #b"), "x = P(a , L(b))");
  EXPECT_EQ(rewritten("x = #a .. #b"), "x = C(L(a) , L(b))");
  EXPECT_EQ(rewritten("for k in a, b do end"), "for k in I(a, b) do end");
  EXPECT_EQ(rewritten("f{#a, b = #c, [#d] = #e}"), "f{L(a), b = L(c), [L(d)] = L(e)}");
}

TEST(lua_sandbox_rewriter, takes_one_value_of_the_last_operand) {
  EXPECT_EQ(rewritten("x = a .. f()"), "x = C(a , (f()))");
  EXPECT_EQ(rewritten("x = f() .. g()"), "x = C(f() , (g()))");
  EXPECT_EQ(rewritten("x = a .. b:c 'd' .. e"), "x = C(a , b:c 'd' , e)");
  EXPECT_EQ(rewritten("function f(...) return a .. ... end"),
            "function f(...) return C(a , (...)) end");
}

TEST(lua_sandbox_rewriter, keeps_statements_and_lines_apart) {
  EXPECT_EQ(rewritten("x = #'a'\n(f or g)()"), "x = L('a')\n;(f or g)()");
  EXPECT_EQ(rewritten("x = a -- one\n  .. b -- two\ny = 1"),
            "x = C(a -- one\n  , b) -- two\ny = 1");
}

TEST(lua_sandbox_rewriter, says_where_a_source_is_wrong) {
  EXPECT_EQ(rewritten("x = "), "1:5: expected an expression, at the end of the file");
  EXPECT_EQ(rewritten("x = 1\n  y"),
            "2:4: a statement must be a call or an assignment, at the end of the file");
  EXPECT_EQ(rewritten("a .. b"), "1:3: a statement must be a call or an assignment, near '..'");
  EXPECT_EQ(rewritten("f() = 1"), "1:5: cannot assign to this, near '='");
  EXPECT_EQ(rewritten("x = 'abc\ny = 1"), "1:5: a string is not closed on its line, near ''abc'");
  EXPECT_EQ(rewritten("x = [[abc"), "1:5: a long string is not closed, near '[[abc'");
  EXPECT_EQ(rewritten("if a then\n\nx = 1"),
            "3:6: expected 'end' to close 'if' of line 1, at the end of the file");
  EXPECT_EQ(rewritten("end"), "1:1: nothing opens a block that could end here, near 'end'");
  EXPECT_EQ(rewritten("return 1 x = 2"),
            "1:10: 'return' must be the last statement of its block, near 'x'");
  EXPECT_EQ(rewritten("x = $"), "1:5: a character that Lua does not know, near '$'");
  EXPECT_EQ(rewritten("x = €"), "1:5: a character that Lua does not know, near '€'");
  EXPECT_EQ(rewritten("x y = 1 '€€€€€€€€€€€€€€€€€€€€'"),
            "1:3: a statement must be a call or an assignment, near 'y'");
  EXPECT_EQ(rewritten("x = 1 'x€€€€€€€€€€€€€€€€€€€€'").substr(0, 76),
            "1:7: expected an expression, near ''x€€€€€€€€€€€€'");
  EXPECT_EQ(rewritten("x = ..."), "1:5: '...' outside a function that takes it, near '...'");
  EXPECT_EQ(rewritten("function f() return ... end").substr(0, 5), "1:21:");
  EXPECT_EQ(rewritten("local x <close> = 1").substr(0, 5), "1:10:");
  EXPECT_EQ(rewritten("x = {1, 2"), "1:10: expected '}', at the end of the file");
  EXPECT_EQ(rewritten("__terrane_x = 1").substr(0, 4), "1:1:");
  EXPECT_EQ(rewritten("a.__terrane_x = 1").substr(0, 4), "1:3:");
}

TEST(lua_sandbox_rewriter, refuses_what_would_keep_the_compiler_busy) {
  const auto many = [](std::string_view text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_NE(rewritten("x = " + many("(", 200)).find("too deeply nested"), std::string::npos);
  EXPECT_NE(rewritten("x = " + many("{", 200)).find("too deeply nested"), std::string::npos);
  EXPECT_NE(rewritten("x = " + many("- ", 200) + "1").find("too deeply nested"), std::string::npos);
  EXPECT_NE(rewritten("x = " + many("a ^ ", 200) + "1").find("too deeply nested"),
            std::string::npos);
  EXPECT_NE(rewritten(many("do ", 200)).find("too deeply nested"), std::string::npos);
  EXPECT_NE(rewritten("x = " + many("a or ", 1100) + "a").find("too many branches"),
            std::string::npos);
  EXPECT_NE(rewritten(many("goto a ", 1100)).find("too many branches"), std::string::npos);
  EXPECT_NE(rewritten("x = {" + many("1,", 2100) + "}").find("too many numbers"),
            std::string::npos);
  EXPECT_NE(rewritten("x = '" + many("a", 1100) + "'").find("too long"), std::string::npos);
  EXPECT_NE(rewritten(many("a", 1100) + " = 1").find("too long"), std::string::npos);
}

}  // namespace
}  // namespace terrane::policies::lua
