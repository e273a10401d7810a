#include "policies/lua/sandbox_rewriter.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "policies/lua/sandbox_lexer.hpp"

namespace terrane::policies::lua {
namespace {

constexpr std::string_view prologue =
    "local __terrane_power,__terrane_concat,__terrane_length,__terrane_iterate=...;";
constexpr std::string_view reserved_prefix = "__terrane_";

// Below Lua's own 200, which also counts the calls that rewriting adds.
constexpr int max_depth = 120;
// Lua's compiler takes time quadratic in the jumps of a chain, and in numbers chosen to collide in
// its table of constants. This many take a few milliseconds.
constexpr int max_jumps = 1000;
constexpr int max_numbers = 2000;

// Edits at one place apply in this order: what ended there, a separator, what begins there, and
// then the token itself is replaced. Of calls that begin at one place the outer is noted last.
enum class edit_kind { close, separate, open, replace };

struct edit {
  std::size_t at = 0;
  edit_kind kind = edit_kind::replace;
  std::size_t order = 0;  // of creation
  std::size_t replaced = 0;
  std::string_view text;
};

bool applies_before(const edit& a, const edit& b) {
  if (a.at != b.at) return a.at < b.at;
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.kind == edit_kind::open ? a.order > b.order : a.order < b.order;
}

struct priority {
  int left = 0;
  int right = 0;
};
constexpr int unary_priority = 12;
constexpr priority power_priority = {14, 13};
constexpr priority concat_priority = {9, 8};

// Of the manual's section 3.4.8; a left priority of 0 for what is no binary operator.
priority binary_priority(const token& t) {
  if (t.kind == token_kind::keyword) {
    return t.text == "or" ? priority{1, 1} : t.text == "and" ? priority{2, 2} : priority{};
  }
  if (t.kind != token_kind::symbol) return {};
  const bool single = t.text.size() == 1;
  switch (t.text.front()) {
    case '<':
    case '>':
      return t.text == "<<" || t.text == ">>" ? priority{7, 7} : priority{3, 3};
    case '=':
      return single ? priority{} : priority{3, 3};
    case '~':
      return single ? priority{5, 5} : priority{3, 3};
    case '|':
      return {4, 4};
    case '&':
      return {6, 6};
    case '.':
      return t.text == ".." ? concat_priority : priority{};
    case '+':
    case '-':
      return {10, 10};
    case '*':
    case '/':
    case '%':
      return {11, 11};
    case '^':
      return power_priority;
    default:
      return {};
  }
}

// The first line of a token, and no half UTF-8 character of it.
std::string beginning_of(std::string_view text) {
  std::size_t size = std::min<std::size_t>(text.find_first_of("\r\n"), 40);
  if (size < text.size()) {
    while (size > 0 && (text[size] & 0xC0) == 0x80) --size;
  }
  return std::string(text.substr(0, size));
}

// What an expression is, as far as its surroundings care.
enum class shape { value, variable, call, several };

// A recursive-descent parser of the reference manual's section 9. The first fault is kept; from
// then on the current token is the end of the source, at which every rule stops.
class rewriter {
 public:
  rewriter(std::string_view source, std::size_t longest_token)
      : source_(source), lexer_(source), longest_token_(longest_token) {
    advance();
  }

  tl::expected<std::string, syntax_fault> run() {
    block();
    if (current_.kind != token_kind::end) fail("nothing opens a block that could end here");
    if (fault_) return tl::unexpected(*fault_);
    return apply();
  }

 private:
  // Tokens.
  void advance() {
    last_end_ = current_.end;
    current_ = fault_ ? ended() : lexer_.next();
    check_token();
  }

  void check_token() {
    if (current_.kind == token_kind::invalid) return fail(lexer_.problem());
    if (current_.text.size() > longest_token_) return fail("a string or name is too long");
    if (current_.kind != token_kind::name) return;
    if (current_.text.starts_with(reserved_prefix)) {
      fail("names that begin with __terrane_ are reserved");
    } else if (current_.text == "_ENV") {
      fail("_ENV is not available in policies");  // Lua 5.4.4 compiles a constant one wrongly
    }
  }

  token ended() const {
    token t;
    t.begin = t.end = source_.size();
    return t;
  }

  void fail(std::string message) {
    if (fault_) return;
    if (current_.kind == token_kind::end) {
      message += ", at the end of the file";
    } else {
      message += ", near '" + beginning_of(current_.text) + "'";
    }
    fault_ = syntax_fault{std::move(message), current_.line, current_.column};
    current_ = ended();
  }

  bool is(std::string_view text) const {
    return (current_.kind == token_kind::symbol || current_.kind == token_kind::keyword) &&
           current_.text == text;
  }

  bool accept(std::string_view text) {
    if (!is(text)) return false;
    advance();
    return true;
  }

  void expect(std::string_view text) {
    if (!accept(text)) fail("expected '" + std::string(text) + "'");
  }

  // For what closes something opened on another line.
  void expect_closing(std::string_view text, std::string_view opened, int line) {
    if (accept(text)) return;
    std::string message = "expected '" + std::string(text) + "'";
    if (line != current_.line) {
      message += " to close '" + std::string(opened) + "' of line " + std::to_string(line);
    }
    fail(std::move(message));
  }

  void expect_name() {
    if (current_.kind != token_kind::name) return fail("expected a name");
    advance();
  }

  // Edits.
  void note(std::size_t at, edit_kind kind, std::string_view text, std::size_t replaced = 0) {
    edits_.push_back({at, kind, edits_.size(), replaced, text});
  }

  // Replaces the current token, and steps over it.
  void replace_token(std::string_view text) {
    note(current_.begin, edit_kind::replace, text, current_.end - current_.begin);
    advance();
  }

  std::string apply() {
    std::sort(edits_.begin(), edits_.end(), applies_before);
    std::string text(prologue);
    std::size_t copied = 0;
    for (const edit& e : edits_) {
      text += source_.substr(copied, e.at - copied);
      text += e.text;
      copied = e.at + e.replaced;
    }
    text += source_.substr(copied);
    return text;
  }

  // Limits.
  class nesting {
   public:
    explicit nesting(rewriter& owner) : owner_(owner) {
      if (++owner_.depth_ > max_depth) owner_.fail("too deeply nested");
    }
    ~nesting() { --owner_.depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;

   private:
    rewriter& owner_;
  };

  void count_jump() {
    if (++jumps_ > max_jumps) fail("too many branches in one file; split it");
  }

  // Statements.
  bool block_ends() const {
    return current_.kind == token_kind::end || is("end") || is("else") || is("elseif") ||
           is("until");
  }

  void block() {
    const nesting guard(*this);
    while (!block_ends()) {
      if (is("return")) return return_statement();
      statement();
    }
  }

  void return_statement() {
    advance();
    if (!block_ends() && !is(";")) expressions();
    accept(";");
    if (!block_ends()) fail("'return' must be the last statement of its block");
  }

  void statement() {
    const int line = current_.line;
    if (accept(";")) return;
    if (accept("if")) return if_statement(line);
    if (accept("while")) {
      expression();
      expect("do");
      return body("while", line);
    }
    if (accept("do")) return body("do", line);
    if (accept("for")) return for_statement(line);
    if (accept("repeat")) {
      block();
      expect_closing("until", "repeat", line);
      expression();
      return;
    }
    if (accept("function")) return function_statement(line);
    if (accept("local")) return local_statement(line);
    if (is("::") || is("goto") || is("break")) return jump_statement();
    expression_statement();
  }

  void body(std::string_view opened, int line) {
    block();
    expect_closing("end", opened, line);
  }

  void if_statement(int line) {
    expression();
    expect("then");
    block();
    while (accept("elseif")) {
      count_jump();
      expression();
      expect("then");
      block();
    }
    if (accept("else")) block();
    expect_closing("end", "if", line);
  }

  void for_statement(int line) {
    expect_name();
    if (accept("=")) {
      expressions();
    } else {
      while (accept(",")) expect_name();
      expect("in");
      note(current_.begin, edit_kind::open, "__terrane_iterate(");
      expressions();
      note(last_end_, edit_kind::close, ")");
    }
    expect("do");
    body("for", line);
  }

  void function_statement(int line) {
    expect_name();
    while (accept(".")) expect_name();
    if (accept(":")) expect_name();
    function_body(line);
  }

  void local_statement(int line) {
    if (accept("function")) {
      expect_name();
      return function_body(line);
    }
    do {
      expect_name();
      if (accept("<")) attribute();
    } while (accept(","));
    if (accept("=")) expressions();
  }

  void attribute() {
    if (current_.text == "close") fail("variables that close are not available in policies");
    if (current_.text != "const") fail("expected the attribute 'const'");
    advance();
    expect(">");
  }

  void jump_statement() {
    count_jump();
    if (accept("break")) return;
    if (accept("goto")) return expect_name();
    expect("::");
    expect_name();
    expect("::");
  }

  void expression_statement() {
    // What precedes may now end in a call's parenthesis, which would take this one as arguments.
    if (is("(")) note(current_.begin, edit_kind::separate, ";");
    const shape first = suffixed_expression();
    if (is("=") || is(",")) return assignment(first);
    if (first != shape::call) fail("a statement must be a call or an assignment");
  }

  void assignment(shape first) {
    if (first != shape::variable) return fail("cannot assign to this");
    while (accept(",")) {
      if (suffixed_expression() != shape::variable) return fail("cannot assign to this");
    }
    expect("=");
    expressions();
  }

  // Expressions.
  void expressions() {
    do {
      expression();
    } while (accept(","));
  }

  shape expression() { return operation(0); }

  shape operation(int limit) {
    const nesting guard(*this);
    const std::size_t begin = current_.begin;
    shape left = unary_or_simple();
    for (priority op = binary_priority(current_); op.left > limit; op = binary_priority(current_)) {
      if (is("^")) {
        power(begin);
      } else if (is("..")) {
        concatenation(begin);
      } else {
        if (is("and") || is("or")) count_jump();
        advance();
        operation(op.right);
      }
      left = shape::value;
    }
    return left;
  }

  shape unary_or_simple() {
    if (is("#")) {
      replace_token("__terrane_length(");
      operation(unary_priority);
      note(last_end_, edit_kind::close, ")");
      return shape::value;
    }
    if (accept("-") || accept("not") || accept("~")) {
      operation(unary_priority);
      return shape::value;
    }
    return simple_expression();
  }

  void power(std::size_t begin) {
    note(begin, edit_kind::open, "__terrane_power(");
    replace_token(",");
    operation(power_priority.right);
    note(last_end_, edit_kind::close, ")");
  }

  // A whole chain is one call. Its operands bind tighter than the operator itself.
  void concatenation(std::size_t begin) {
    while (is("..")) {
      replace_token(",");
      const std::size_t operand = current_.begin;
      const shape kind = operation(concat_priority.left);
      if (!is("..") && (kind == shape::call || kind == shape::several)) {
        note(operand, edit_kind::open, "(");  // one value of it, as the operator takes
        note(last_end_, edit_kind::close, ")");
      }
    }
    note(begin, edit_kind::open, "__terrane_concat(");
    note(last_end_, edit_kind::close, ")");
  }

  shape simple_expression() {
    if (current_.kind == token_kind::number && ++numbers_ > max_numbers) {
      fail("too many numbers in one file; split it");
    }
    if (current_.kind == token_kind::number || current_.kind == token_kind::string || is("nil") ||
        is("true") || is("false")) {
      advance();
      return shape::value;
    }
    if (is("...")) {
      if (!variadic_) fail("'...' outside a function that takes it");
      advance();
      return shape::several;
    }
    if (is("{")) return table();
    const int line = current_.line;
    if (accept("function")) {
      function_body(line);
      return shape::value;
    }
    return suffixed_expression();
  }

  shape primary_expression() {
    const int line = current_.line;
    if (accept("(")) {
      expression();
      expect_closing(")", "(", line);
      return shape::value;
    }
    if (current_.kind != token_kind::name) fail("expected an expression");
    advance();
    return shape::variable;
  }

  shape suffixed_expression() {
    shape so_far = primary_expression();
    while (true) {
      if (accept(".")) {
        expect_name();
        so_far = shape::variable;
      } else if (is("[")) {
        index();
        so_far = shape::variable;
      } else if (accept(":")) {
        expect_name();
        arguments();
        so_far = shape::call;
      } else if (is("(") || is("{") || current_.kind == token_kind::string) {
        arguments();
        so_far = shape::call;
      } else {
        return so_far;
      }
    }
  }

  void index() {
    const int line = current_.line;
    expect("[");
    expression();
    expect_closing("]", "[", line);
  }

  void arguments() {
    const int line = current_.line;
    if (is("{")) {
      table();
    } else if (current_.kind == token_kind::string) {
      advance();
    } else if (accept("(")) {
      if (!is(")")) expressions();
      expect_closing(")", "(", line);
    } else {
      fail("expected the arguments of a call");
    }
  }

  shape table() {
    const nesting guard(*this);
    const int line = current_.line;
    expect("{");
    while (!is("}") && current_.kind != token_kind::end) {
      field();
      if (!accept(",") && !accept(";")) break;
    }
    expect_closing("}", "{", line);
    return shape::value;
  }

  // `name = value` needs a look ahead: a name alone is the beginning of an expression.
  void field() {
    if (is("[")) {
      index();
      expect("=");
    } else if (current_.kind == token_kind::name) {
      lexer ahead = lexer_;
      const token following = ahead.next();
      if (following.kind == token_kind::symbol && following.text == "=") {
        advance();
        advance();
      }
    }
    expression();
  }

  void function_body(int line) {
    const bool outer = std::exchange(variadic_, false);
    expect("(");
    while (!is(")") && current_.kind != token_kind::end) {
      if (accept("...")) {
        variadic_ = true;
        break;
      }
      expect_name();
      if (!accept(",")) break;
      if (is(")")) fail("expected a name");
    }
    expect(")");
    body("function", line);
    variadic_ = outer;
  }

  std::string_view source_;
  lexer lexer_;
  std::size_t longest_token_;
  token current_;
  std::size_t last_end_ = 0;  // where the token before the current one ended
  std::vector<edit> edits_;
  std::optional<syntax_fault> fault_;
  bool variadic_ = false;  // whether the function being read takes "..."
  int depth_ = 0;
  int jumps_ = 0;
  int numbers_ = 0;
};

}  // namespace

tl::expected<std::string, syntax_fault> rewrite(std::string_view source,
                                                std::size_t longest_token) {
  return rewriter(source, longest_token).run();
}

}  // namespace terrane::policies::lua
