// One JSON text as a tree, for what this program wrote itself. Numbers stay as they are written, so
// that a double comes back with the same bits. Plain values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace terrane::policies::trace {

enum class json_kind { null, boolean, number, text, list, object };

struct json_value {
  json_kind kind = json_kind::null;
  std::string text;  // of a text; of a number or boolean, as written
  std::vector<json_value> items;
  std::vector<std::pair<std::string, json_value>> fields;
  std::string_view written;  // where it stands in the text that was read

  // The field of an object; null when there is none.
  const json_value* find(std::string_view name) const;
};

// The error is a clause: what is wrong at which column. `text` outlives the tree.
tl::expected<json_value, std::string> parse_json(std::string_view text);

}  // namespace terrane::policies::trace
