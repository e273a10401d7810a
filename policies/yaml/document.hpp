// A YAML text as a tree that remembers where everything stands. Stricter than YAML itself, because
// policy files are untrusted input read by an administrator's daemon: one document, no anchors or
// aliases (they make small files huge), no tags, no duplicate keys, bounded depth and size. Plain
// values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/diagnostic.hpp"

namespace terrane::policies::yaml {

enum class node_kind { null, scalar, list, map };

struct entry;

struct node {
  node_kind kind = node_kind::null;
  std::string text;     // of a scalar, unquoted
  bool quoted = false;  // the scalar stood in quotes
  source_location where;
  std::vector<node> items;     // of a list
  std::vector<entry> entries;  // of a map, in file order

  // The value of a key; null when the map does not have it.
  const node* find(std::string_view key) const;
};

// A key of a map, which is a scalar, and its value.
struct entry {
  node key;
  node value;
};

// Deeper nesting than this is refused.
inline constexpr int max_depth = 16;
// More nodes than this are refused.
inline constexpr std::size_t max_nodes = 50'000;

// `name` is what messages call the text.
result<node> parse_document(const std::string& name, std::string_view text);

// "a text", "a list", ... for messages.
std::string_view describe(const node& n);

}  // namespace terrane::policies::yaml
