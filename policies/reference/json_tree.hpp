// A JSON text that is built as a tree and written for people to read: keys in the order in which
// they were added, two spaces a level, and on one line what fits. Plain values; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace terrane::policies::reference {

class json_tree {
 public:
  json_tree(std::string_view text);
  json_tree(const char* text) : json_tree(std::string_view(text)) {}
  json_tree(const std::string& text) : json_tree(std::string_view(text)) {}
  json_tree(bool b) : scalar_(b ? "true" : "false") {}
  json_tree(std::int64_t number) : scalar_(std::to_string(number)) {}
  json_tree(int number) : json_tree(std::int64_t{number}) {}

  static json_tree object(
      std::initializer_list<std::pair<std::string_view, json_tree>> fields = {});
  static json_tree array(std::vector<json_tree> items = {});

  // Of an object: a field more, at the end.
  json_tree& add(std::string_view key, json_tree value);
  // Of an array.
  json_tree& push(json_tree value);
  bool empty() const { return items_.empty(); }

  // The text, ended by a new line.
  std::string written() const;

 private:
  enum class kind { scalar, object, array };
  explicit json_tree(kind k) : kind_(k) {}

  std::string on_one_line() const;
  void write(std::string& to, std::size_t indent, std::size_t column) const;

  kind kind_ = kind::scalar;
  std::string scalar_;                                    // as it is written
  std::vector<std::pair<std::string, json_tree>> items_;  // of an array without keys
};

}  // namespace terrane::policies::reference
