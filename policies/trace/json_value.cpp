#include "policies/trace/json_value.hpp"

#include <charconv>

namespace terrane::policies::trace {
namespace {

constexpr int deepest = 32;

class parser {
 public:
  explicit parser(std::string_view text) : text_(text) {}

  tl::expected<json_value, std::string> run() {
    json_value root;
    if (value(root, 0)) {
      skip();
      if (at_ == text_.size()) return root;
      fault("text after the end");
    }
    return tl::unexpected(fault_);
  }

 private:
  bool fault(std::string_view what) {
    if (fault_.empty()) {
      fault_ = std::string(what) + " at column " + std::to_string(at_ + 1);
    }
    return false;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }

  bool value(json_value& to, int depth) {
    skip();
    const std::size_t begin = at_;
    if (!value_of(to, depth)) return false;
    to.written = text_.substr(begin, at_ - begin);
    return true;
  }

  bool value_of(json_value& to, int depth) {
    if (depth > deepest) return fault("too many levels");
    if (at_ >= text_.size()) return fault("the text ends early");
    const char c = text_[at_];
    if (c == '{') return object(to, depth);
    if (c == '[') return list(to, depth);
    if (c == '"') {
      to.kind = json_kind::text;
      return string(to.text);
    }
    if (word("null")) return true;
    for (const std::string_view w : {"true", "false"}) {
      if (!word(w)) continue;
      to.kind = json_kind::boolean;
      to.text = w;
      return true;
    }
    return number(to);
  }

  bool number(json_value& to) {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    if (begin == at_) return fault("no value");
    to.kind = json_kind::number;
    to.text = text_.substr(begin, at_ - begin);
    return true;
  }

  bool list(json_value& to, int depth) {
    to.kind = json_kind::list;
    ++at_;
    if (take(']')) return true;
    do {
      if (!value(to.items.emplace_back(), depth + 1)) return false;
    } while (take(','));
    return take(']') || fault("a list without its end");
  }

  bool object(json_value& to, int depth) {
    to.kind = json_kind::object;
    ++at_;
    if (take('}')) return true;
    do {
      skip();
      auto& [name, inner] = to.fields.emplace_back();
      if (at_ >= text_.size() || text_[at_] != '"' || !string(name)) return fault("no name");
      if (!take(':')) return fault("no ':'");
      if (!value(inner, depth + 1)) return false;
    } while (take(','));
    return take('}') || fault("an object without its end");
  }

  bool string(std::string& to) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        to += text_[at_++];
        continue;
      }
      if (!escape(to)) return fault("an escape that is none");
    }
    if (at_ >= text_.size()) return fault("a text without its end");
    ++at_;
    return true;
  }

  // Those that json_writer writes: \" \\ \n \u00xx.
  bool escape(std::string& to) {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
    at_ += 2;
    if (c == '"' || c == '\\') return to += c, true;
    if (c == 'n') return to += '\n', true;
    if (c != 'u' || at_ + 4 > text_.size()) return false;
    unsigned code = 0;
    const char* const end = text_.data() + at_ + 4;
    const auto [stop, wrong] = std::from_chars(text_.data() + at_, end, code, 16);
    if (wrong != std::errc() || stop != end || code > 0x7f) return false;
    at_ += 4;
    return to += static_cast<char>(code), true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace

const json_value* json_value::find(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

tl::expected<json_value, std::string> parse_json(std::string_view text) {
  return parser(text).run();
}

}  // namespace terrane::policies::trace
