#include "ipc/varlink/interface.hpp"

#include <utility>

namespace terrane::ipc::varlink {
namespace {

// More than any sane interface has; a bound for the recursion of the parser.
constexpr int deepest_type = 32;

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// A recursive-descent parser. The first fault is kept; after it everything returns at once.
class parser {
 public:
  explicit parser(std::string_view text) : text_(text) {}

  result<interface_description> run() {
    interface_description parsed;
    parsed.text = std::string(text_);
    expect_word("interface");
    parsed.name = interface_name();
    while (!failed() && !at_end()) {
      member(parsed);
    }
    if (!failed()) {
      check_names(parsed);
    }
    if (failed()) {
      return fail(error_code::invalid_text, fault_);
    }
    return parsed;
  }

 private:
  bool failed() const { return !fault_.empty(); }

  void fault_at(std::size_t position, const std::string& what) {
    if (failed()) {
      return;
    }
    std::size_t line = 1;
    std::size_t column = 1;
    for (const char c : text_.substr(0, position)) {
      column = c == '\n' ? 1 : column + 1;
      line += c == '\n' ? 1 : 0;
    }
    fault_ = "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what;
  }
  void expected(const std::string& what) { fault_at(position_, "expected " + what); }

  void skip_space() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++position_;
      } else {
        return;
      }
    }
  }
  bool at_end() {
    skip_space();
    return position_ >= text_.size();
  }
  bool take(std::string_view symbol) {
    skip_space();
    if (!text_.substr(position_).starts_with(symbol)) {
      return false;
    }
    position_ += symbol.size();
    return true;
  }
  void expect(std::string_view symbol) {
    if (!failed() && !take(symbol)) {
      expected("'" + std::string(symbol) + "'");
    }
  }

  // The run of characters that may be in a name, from here on; not consumed.
  std::string_view peek_word(std::string_view also = "_") {
    skip_space();
    std::size_t end = position_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]) ||
                                  also.find(text_[end]) != std::string_view::npos)) {
      ++end;
    }
    return text_.substr(position_, end - position_);
  }
  bool take_word(std::string_view word) {
    if (peek_word() != word) {
      return false;
    }
    position_ += word.size();
    return true;
  }
  void expect_word(std::string_view word) {
    if (!failed() && !take_word(word)) {
      expected("'" + std::string(word) + "'");
    }
  }

  std::string interface_name() {
    const std::string_view word = peek_word(".-");
    bool good = !word.empty() && is_letter(word.front()) && word.find('.') != word.npos;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const bool separator = word[i] == '.' || word[i] == '-';
      const bool at_edge = i == 0 || i + 1 == word.size();
      good = good && !(separator && (at_edge || word[i - 1] == '.' || word[i - 1] == '-'));
    }
    if (!good) {
      expected("the name of the interface, such as org.example.name");
      return {};
    }
    position_ += word.size();
    return std::string(word);
  }
  std::string member_name() {
    const std::string_view word = peek_word("");
    if (word.empty() || !is_upper(word.front())) {
      expected("a name that begins with a capital letter");
      return {};
    }
    position_ += word.size();
    return std::string(word);
  }
  std::string field_name() {
    const std::string_view word = peek_word();
    bool good = !word.empty() && is_letter(word.front()) && word.back() != '_';
    good = good && word.find("__") == word.npos;
    if (!good) {
      expected("the name of a field");
      return {};
    }
    position_ += word.size();
    return std::string(word);
  }

  void member(interface_description& into) {
    const std::size_t start = position_;
    if (take_word("type")) {
      const std::string name = member_name();
      type parsed = struct_or_enum(0);
      unique(into, name, start);
      into.types.emplace(name, std::move(parsed));
    } else if (take_word("method")) {
      const std::string name = member_name();
      method parsed;
      parsed.inputs = fields_of_struct();
      expect("->");
      parsed.outputs = fields_of_struct();
      unique(into, name, start);
      into.methods.emplace(name, std::move(parsed));
    } else if (take_word("error")) {
      const std::string name = member_name();
      std::vector<field> parsed = fields_of_struct();
      unique(into, name, start);
      into.errors.emplace(name, std::move(parsed));
    } else {
      expected("'type', 'method' or 'error'");
    }
  }
  void unique(const interface_description& so_far, const std::string& name, std::size_t start) {
    if (so_far.types.contains(name) || so_far.methods.contains(name) ||
        so_far.errors.contains(name)) {
      fault_at(start, name + " is defined twice");
    }
  }

  std::vector<field> fields_of_struct() {
    skip_space();
    const std::size_t start = position_;
    type parsed = struct_or_enum(0);
    if (!failed() && parsed.kind != type::kinds::structure) {
      fault_at(start, "expected fields with types");
    }
    return std::move(parsed.fields);
  }

  type struct_or_enum(int depth) {
    type parsed;
    parsed.kind = type::kinds::structure;
    expect("(");
    if (failed() || take(")")) {
      return parsed;
    }
    const std::size_t start = position_;
    const std::string first = field_name();
    if (take(":")) {
      parsed.fields.push_back({first, value_type(depth + 1)});
      while (!failed() && take(",")) {
        field next;
        next.name = field_name();
        expect(":");
        next.type = value_type(depth + 1);
        parsed.fields.push_back(std::move(next));
      }
    } else {
      parsed.kind = type::kinds::enumeration;
      parsed.names.push_back(first);
      while (!failed() && take(",")) {
        parsed.names.push_back(field_name());
      }
    }
    expect(")");
    check_distinct(parsed, start);
    return parsed;
  }
  void check_distinct(const type& parsed, std::size_t start) {
    std::map<std::string_view, int> seen;
    for (const field& one : parsed.fields) {
      ++seen[one.name];
    }
    for (const std::string& one : parsed.names) {
      ++seen[one];
    }
    for (const auto& [name, times] : seen) {
      if (times > 1) {
        fault_at(start, std::string(name) + " appears twice");
      }
    }
  }

  type value_type(int depth) {
    type parsed;
    if (depth > deepest_type) {
      fault_at(position_, "types nested more than " + std::to_string(deepest_type) + " deep");
      return parsed;
    }
    if (take("?")) {
      parsed.kind = type::kinds::optional;
      if (take("?")) {
        expected("a type after '?'");
      }
      parsed.element.push_back(value_type(depth + 1));
    } else if (take("[]")) {
      parsed.kind = type::kinds::array;
      parsed.element.push_back(value_type(depth + 1));
    } else if (take("[string]")) {
      parsed.kind = type::kinds::map;
      parsed.element.push_back(value_type(depth + 1));
    } else if (take("(")) {
      --position_;
      return struct_or_enum(depth);
    } else {
      return plain_type();
    }
    return parsed;
  }
  type plain_type() {
    using kinds = type::kinds;
    for (const auto& [word, kind] :
         {std::pair{"bool", kinds::boolean}, std::pair{"int", kinds::integer},
          std::pair{"float", kinds::floating}, std::pair{"string", kinds::string},
          std::pair{"object", kinds::object}, std::pair{"any", kinds::any}}) {
      if (take_word(word)) {
        return {kind, {}, {}, {}, {}};
      }
    }
    skip_space();
    const std::size_t start = position_;
    type parsed{kinds::named, {}, {}, {}, {}};
    if (peek_word("").empty() || !is_upper(peek_word("").front())) {
      expected("a type");
      return parsed;
    }
    parsed.name = member_name();
    named_at_.emplace_back(parsed.name, start);
    return parsed;
  }

  void check_names(const interface_description& parsed) {
    for (const auto& [name, position] : named_at_) {
      if (!parsed.types.contains(name)) {
        fault_at(position, "there is no type " + name);
      }
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::string fault_;
  std::vector<std::pair<std::string, std::size_t>> named_at_;
};

}  // namespace

result<interface_description> parse_interface(std::string_view text) { return parser(text).run(); }

}  // namespace terrane::ipc::varlink
