#include "policies/reference/json_tree.hpp"

#include "policies/explain/json_writer.hpp"

namespace terrane::policies::reference {
namespace {

constexpr std::size_t columns = 100;

std::string quoted(std::string_view text) { return json_writer().value(text).text(); }

}  // namespace

json_tree::json_tree(std::string_view text) : scalar_(quoted(text)) {}

json_tree json_tree::object(std::initializer_list<std::pair<std::string_view, json_tree>> fields) {
  json_tree made(kind::object);
  for (const auto& [key, value] : fields) made.add(key, value);
  return made;
}

json_tree json_tree::array(std::vector<json_tree> items) {
  json_tree made(kind::array);
  for (json_tree& item : items) made.push(std::move(item));
  return made;
}

json_tree& json_tree::add(std::string_view key, json_tree value) {
  items_.emplace_back(quoted(key), std::move(value));
  return *this;
}

json_tree& json_tree::push(json_tree value) {
  items_.emplace_back(std::string(), std::move(value));
  return *this;
}

std::string json_tree::written() const {
  std::string text;
  write(text, 0, 0);
  return text + "\n";
}

std::string json_tree::on_one_line() const {
  if (kind_ == kind::scalar) return scalar_;
  std::string text(1, kind_ == kind::object ? '{' : '[');
  for (const auto& [key, value] : items_) {
    if (text.size() > 1) text += ", ";
    if (!key.empty()) text += key + ": ";
    text += value.on_one_line();
  }
  return text + (kind_ == kind::object ? '}' : ']');
}

void json_tree::write(std::string& to, std::size_t indent, std::size_t column) const {
  std::string line = on_one_line();
  if (items_.empty() || column + line.size() < columns) {
    to += line;
    return;
  }
  to += kind_ == kind::object ? '{' : '[';
  bool first = true;
  for (const auto& [key, value] : items_) {
    to += first ? "\n" : ",\n";
    first = false;
    to.append(indent + 2, ' ');
    if (!key.empty()) to += key + ": ";
    value.write(to, indent + 2, indent + 2 + key.size() + 2);
  }
  to += '\n';
  to.append(indent, ' ');
  to += kind_ == kind::object ? '}' : ']';
}

}  // namespace terrane::policies::reference
