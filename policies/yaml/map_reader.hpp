// Reads the keys of one YAML map: each key is asked for by name, and what was never asked for is an
// error with the nearest name that was. Faults are collected, not thrown, so that one pass finds
// all. Holds references to the map and to the list of faults; used on one thread for a moment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/table.hpp"
#include "policies/yaml/document.hpp"

namespace terrane::policies::yaml {

template <class Key>
concept table_key = std::is_enum_v<Key>;

class map_reader {
 public:
  // `what` names the map in messages: "a policy", "'enter'". A node that is no map is a fault, and
  // then every key is missing.
  map_reader(const node& map, std::string what, std::vector<diagnostic>& faults);

  // Whether the node is a map at all.
  bool usable() const { return map_.kind == node_kind::map; }
  const source_location& where() const { return map_.where; }

  // The key's value, or null. Marks the key as known.
  const node* optional_key(std::string_view key);
  // The same, but its absence is a fault; `says` tells what it should hold.
  const node* required_key(std::string_view key, std::string_view says);

  // A scalar's text; a fault when the key is there and holds something else.
  std::optional<std::string> text(std::string_view key);
  std::optional<double> quantity(std::string_view key, unit u);
  std::optional<double> value_of(std::string_view key, const metric_entry& m);
  std::optional<std::int64_t> duration_ms(std::string_view key);
  // A whole number within the bounds, both included.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  template <class T>
  std::optional<T> one_of(std::string_view key, std::span<const word<T>> words) {
    const std::optional<std::string> name = text(key);
    if (!name) return std::nullopt;
    const std::optional<T> value = find_word(words, *name);
    if (!value) unknown_word(key, *name, names_of(words));
    return value;
  }

  // The same of a key of a table, which has what it should hold and its bounds: policy_key, or
  // another whose row_of() is found beside it.
  template <table_key Key>
  const node* optional_key(Key k) {
    return optional_key(row_of(k).name);
  }
  template <table_key Key>
  const node* required_key(Key k) {
    return required_key(row_of(k).name, row_of(k).says);
  }
  template <table_key Key>
  std::optional<std::string> text(Key k) {
    return text(row_of(k).name);
  }
  template <table_key Key>
  std::optional<double> quantity(Key k, unit u) {
    return quantity(row_of(k).name, u);
  }
  template <table_key Key>
  std::optional<std::int64_t> duration_ms(Key k) {
    return duration_ms(row_of(k).name);
  }
  template <table_key Key>
  std::optional<std::int64_t> integer(Key k) {
    return integer(row_of(k).name, row_of(k).least, row_of(k).most);
  }
  template <table_key Key, class T>
  std::optional<T> one_of(Key k, std::span<const word<T>> words) {
    return one_of(row_of(k).name, words);
  }

  void fault(const source_location& where, std::string message);
  void warn(const source_location& where, std::string message);
  // Reports the keys that nothing asked for.
  void finish();

 private:
  // What a scalar says to a function that parses it; a fault where that fails.
  template <class Parse>
  auto parsed_as(std::string_view key, Parse parse);
  void unknown_word(std::string_view key, const std::string& name,
                    const std::vector<std::string_view>& names);

  const node& map_;
  std::string what_;
  std::vector<diagnostic>& faults_;
  std::vector<std::string_view> known_;
  std::vector<std::pair<std::string_view, std::size_t>> missing_;  // and which fault says so
};

// Whether a plain scalar is one that YAML 1.1 readers take for a boolean: on, off, yes, no, ...
bool is_boolean_word(const node& n);

}  // namespace terrane::policies::yaml
