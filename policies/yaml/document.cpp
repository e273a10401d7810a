#include "policies/yaml/document.hpp"

#include <istream>
#include <streambuf>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "policies/source_text.hpp"

namespace terrane::policies::yaml {
namespace {

// Reads a string_view as a stream without copying it.
class view_buffer : public std::streambuf {
 public:
  explicit view_buffer(std::string_view text) {
    // streambuf wants a mutable pointer for a get area that it never writes.
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Thrown through yaml-cpp, caught in parse_document.
struct refused {
  diagnostic why;
};

// Builds the tree from yaml-cpp's events, so that nothing it refuses is ever built.
class tree_builder : public YAML::EventHandler {
 public:
  explicit tree_builder(std::string file) : file_(std::move(file)) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    place(leaf(node_kind::null, mark, anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(at(mark), "aliases (*name) are not allowed here; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // yaml-cpp tags a plain scalar "?" and a quoted or block one "!".
    if (tag != "?" && tag != "!") refuse_tag(mark, tag);
    // yaml-cpp 0.7 makes single bytes of the escapes \N and \_ (U+0085 and U+00A0).
    if (find_not_utf8(file_, value))
      refuse(at(mark), "'" + with_escapes(value) +
                           "' is not UTF-8: write the characters of \\N and \\_ themselves");
    node n = leaf(node_kind::scalar, mark, anchor);
    n.quoted = tag == "!";
    n.text = value;
    if (!n.quoted && (value == "~" || value == "null")) n.kind = node_kind::null;
    place(std::move(n));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(node_kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(node_kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  node take() { return std::move(root_); }

 private:
  struct level {
    node open;
    node key;
    bool has_key = false;
  };

  source_location at(const YAML::Mark& mark) const {
    return mark.is_null() ? source_location{file_}
                          : source_location{file_, mark.line + 1, mark.column + 1};
  }

  [[noreturn]] static void refuse(source_location where, std::string message) {
    throw refused{diagnostic{severity::error, std::move(where), std::move(message)}};
  }

  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    refuse(at(mark), "tags (" + with_escapes(tag) + ") are not allowed here");
  }

  node leaf(node_kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(at(mark), "anchors (&name) are not allowed here");
    if (++count_ > max_nodes) {
      refuse(at(mark), "more than " + std::to_string(max_nodes) + " values in one file");
    }
    node n;
    n.kind = kind;
    n.where = at(mark);
    return n;
  }

  void open(node_kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (tag != "?" && tag != "!" && !tag.empty()) {
      refuse_tag(mark, tag);
    }
    if (levels_.size() >= static_cast<std::size_t>(max_depth)) {
      refuse(at(mark), "nested more than " + std::to_string(max_depth) + " levels deep");
    }
    levels_.push_back({leaf(kind, mark, anchor), {}, false});
  }

  void close() {
    node done = std::move(levels_.back().open);
    levels_.pop_back();
    place(std::move(done));
  }

  void place(node n) {
    if (levels_.empty()) {
      root_ = std::move(n);
      return;
    }
    level& parent = levels_.back();
    if (parent.open.kind == node_kind::list) {
      parent.open.items.push_back(std::move(n));
    } else if (!parent.has_key) {
      take_key(parent, std::move(n));
    } else {
      parent.open.entries.push_back({std::move(parent.key), std::move(n)});
      parent.has_key = false;
    }
  }

  static void take_key(level& parent, node key) {
    if (key.kind != node_kind::scalar) refuse(key.where, "a key must be a plain name");
    for (const auto& [known, value] : parent.open.entries) {
      if (known.text != key.text) continue;
      refuse(key.where, "'" + key.text + "' is here twice; the first is in line " +
                            std::to_string(known.where.line));
    }
    parent.key = std::move(key);
    parent.has_key = true;
  }

  std::string file_;
  std::vector<level> levels_;
  node root_;
  std::size_t count_ = 0;
};

// Whether there is a tab in the white space that the line, counted from 0, begins with.
bool has_tab_indent(std::string_view text, int line) {
  for (; line > 0; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  const std::string_view indent = text.substr(0, text.find_first_not_of(" \t"));
  return indent.find('\t') != std::string_view::npos;
}

}  // namespace

const node* node::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

result<node> parse_document(const std::string& name, std::string_view text) {
  // yaml-cpp ends at a NUL in some states and loops over it in others.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail({name}, "holds a NUL byte at offset " + std::to_string(nul) + "; it is no text");
  }
  if (auto fault = find_not_utf8(name, text)) return tl::unexpected(*std::move(fault));
  try {
    view_buffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    tree_builder builder(name);
    if (!parser.HandleNextDocument(builder)) return fail({name, 1, 1}, "the file is empty");
    node root = builder.take();
    tree_builder rest(name);
    if (parser.HandleNextDocument(rest)) {
      return fail(rest.take().where, "a second document begins here; one file holds one");
    }
    return root;
  } catch (const refused& r) {
    return tl::unexpected(r.why);
  } catch (const YAML::Exception& e) {
    const bool known = !e.mark.is_null();
    if (known && has_tab_indent(text, e.mark.line))
      return fail({name, e.mark.line + 1, 1},
                  "this line is indented with a tab, which YAML does not allow; use spaces");
    return fail({name, known ? e.mark.line + 1 : 0, known ? e.mark.column + 1 : 0},
                "not valid YAML: " + with_escapes(e.msg));
  }
}

std::string_view describe(const node& n) {
  switch (n.kind) {
    case node_kind::null:
      return "nothing";
    case node_kind::scalar:
      return "a single value";
    case node_kind::list:
      return "a list";
    case node_kind::map:
      return "a map of keys";
  }
  return "";
}

}  // namespace terrane::policies::yaml
