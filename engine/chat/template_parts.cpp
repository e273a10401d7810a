#include "engine/chat/template_parts.hpp"

#include <algorithm>
#include <utility>

namespace terrane::engine {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, at)) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

class spelling_of {
 public:
  // `in_tag`: whether the text begins inside of a tag.
  spelling_of(std::string_view text, bool in_tag) : in_tag_(in_tag) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      i += take(text.substr(i)) - 1;
    }
    out_ = replace_all(out_, "message.role", "message['role']");
    out_ = replace_all(out_, "message.content", "message['content']");
  }

  std::string text() && { return std::move(out_); }

 private:
  // Returns how many characters it took.
  std::size_t take(std::string_view rest) {
    const char c = rest[0];
    const std::string_view two = rest.substr(0, 2);
    if (quote_ != 0) {
      return take_in_literal(rest);
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      return 1;
    }
    if (!in_tag_) {
      in_tag_ = two == "{{" || two == "{%";
      out_.append(in_tag_ ? two : rest.substr(0, 1));
      return !in_tag_ ? 1 : rest.substr(2, 1) == "-" ? 3 : 2;
    }
    if (two == "}}" || two == "%}") {
      in_tag_ = false;
      out_.append(two);
      return 2;
    }
    if (two == "-}" || two == "-%") {
      return 1;
    }
    if (c == '\'' || c == '"') {
      quote_ = c;
      out_.push_back('\'');
    } else {
      out_.push_back(c);
    }
    return 1;
  }

  std::size_t take_in_literal(std::string_view rest) {
    const char c = rest[0];
    if (c == '\\' && rest.size() > 1) {
      out_.append(rest.substr(0, 2));
      return 2;
    }
    if (c == quote_) {
      quote_ = 0;
      out_.push_back('\'');
    } else if (c == '\n') {
      out_.append("\\n");
    } else if (c == '\'') {
      out_.append("\\'");
    } else {
      out_.push_back(c);
    }
    return 1;
  }

  std::string out_;
  bool in_tag_ = false;
  char quote_ = 0;  // of the literal, as the template has it
};

constexpr std::string_view white_space = " \t\n\r";

std::string_view without_leading(std::string_view text, std::string_view set) {
  const std::size_t first = text.find_first_not_of(set);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::string_view without_trailing(std::string_view text, std::string_view set) {
  const std::size_t last = text.find_last_not_of(set);
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// A tag: {{ }}, {% %} or {# #}.
struct tag {
  char kind = 0;  // the second character
  std::string_view inside;
  bool trims_before = false;
  bool trims_after = false;
  std::size_t end = 0;  // after the tag, in the template
};

// Where the tag that begins at `begin` ends; quotes hide an end, except in a comment.
std::size_t closing_of(std::string_view text, std::size_t begin, char kind) {
  const char close = kind == '{' ? '}' : kind;
  char quote = 0;
  for (std::size_t i = begin + 2; i + 1 < text.size(); ++i) {
    if (quote != 0) {
      i += text[i] == '\\' ? 1 : 0;
      quote = text[i] == quote ? 0 : quote;
    } else if (kind != '#' && (text[i] == '\'' || text[i] == '"')) {
      quote = text[i];
    } else if (text[i] == close && text[i + 1] == '}') {
      return i;
    }
  }
  return text.size();
}

tag tag_at(std::string_view text, std::size_t begin) {
  tag found;
  found.kind = text[begin + 1];
  const std::size_t close = closing_of(text, begin, found.kind);
  found.end = std::min(close + 2, text.size());
  found.inside = text.substr(begin + 2, close - begin - 2);
  found.trims_before = found.inside.starts_with('-');
  found.trims_after = found.inside.ends_with('-');
  if (found.trims_before) {
    found.inside.remove_prefix(1);
  }
  if (found.trims_after && !found.inside.empty()) {
    found.inside.remove_suffix(1);
  }
  return found;
}

std::size_t next_tag(std::string_view text, std::size_t at) {
  for (std::size_t i = text.find('{', at); i != std::string_view::npos; i = text.find('{', i + 1)) {
    if (i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '%' || text[i + 1] == '#')) {
      return i;
    }
  }
  return text.size();
}

// What is written of the text between two tags; either may be missing.
std::string_view written_between(const tag* left, std::string_view text, const tag* right) {
  bool begins_line = left == nullptr;
  if (left != nullptr && left->trims_after) {
    text = without_leading(text, white_space);
  } else if (left != nullptr && left->kind != '{' && text.starts_with('\n')) {
    text.remove_prefix(1);
    begins_line = true;
  }
  if (right == nullptr) {
    return text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
  }
  if (right->trims_before) {
    return without_trailing(text, white_space);
  }
  const std::string_view lines = without_trailing(text, " \t");
  const bool only_tag_on_line = lines.empty() ? begins_line : lines.ends_with('\n');
  return right->kind != '{' && only_tag_on_line ? lines : text;
}

}  // namespace

std::string spelling_of_template(std::string_view text) { return spelling_of(text, false).text(); }

template_parts parts_of_template(std::string_view text) {
  template_parts parts;
  tag last;
  bool has_last = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = next_tag(text, at);
    tag found;
    const bool is_tag = begin < text.size();
    if (is_tag) {
      found = tag_at(text, begin);
      if (found.kind != '#') {
        auto& into = found.kind == '{' ? parts.outputs : parts.statements;
        into.push_back(spelling_of(found.inside, true).text());
      }
    }
    parts.text += written_between(has_last ? &last : nullptr, text.substr(at, begin - at),
                                  is_tag ? &found : nullptr);
    last = found;
    has_last = true;
    at = is_tag ? found.end : text.size();
  }
  return parts;
}

}  // namespace terrane::engine
