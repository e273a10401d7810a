#include "policies/yaml/map_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "policies/vocabulary/metric_value.hpp"
#include "policies/vocabulary/nearest.hpp"

namespace terrane::policies::yaml {

bool is_boolean_word(const node& n) {
  constexpr std::array<std::string_view, 8> words = {"on", "off", "yes",  "no",
                                                     "y",  "n",   "true", "false"};
  if (n.kind != node_kind::scalar || n.quoted) return false;
  std::string lower = n.text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(words, lower) != words.end();
}

map_reader::map_reader(const node& map, std::string what, std::vector<diagnostic>& faults)
    : map_(map), what_(std::move(what)), faults_(faults) {
  if (!usable())
    fault(map.where, what_ + " must be a map of keys, not " + std::string(describe(map)));
}

const node* map_reader::optional_key(std::string_view key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
  return map_.find(key);
}

const node* map_reader::required_key(std::string_view key, std::string_view says) {
  const node* value = optional_key(key);
  if (value == nullptr && usable()) {
    missing_.emplace_back(key, faults_.size());
    fault(map_.where, what_ + " needs '" + std::string(key) + "': " + std::string(says));
  }
  return value;
}

std::optional<std::string> map_reader::text(std::string_view key) {
  const node* value = optional_key(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == node_kind::scalar) return value->text;
  fault(value->where,
        "'" + std::string(key) + "' must be a single value, not " + std::string(describe(*value)));
  return std::nullopt;
}

template <class Parse>
auto map_reader::parsed_as(std::string_view key, Parse parse) {
  using found = std::optional<typename decltype(parse(std::string()))::value_type>;
  const std::optional<std::string> written = text(key);
  if (!written) return found();
  const auto value = parse(*written);
  if (value) return found(*value);
  fault(map_.find(key)->where, "'" + std::string(key) + "': " + value.error());
  return found();
}

std::optional<double> map_reader::quantity(std::string_view key, unit u) {
  return parsed_as(key, [u](const std::string& text) { return parse_quantity(text, u); });
}

std::optional<double> map_reader::value_of(std::string_view key, const metric_entry& m) {
  return parsed_as(key, [&m](const std::string& text) { return parse_value(text, m); });
}

std::optional<std::int64_t> map_reader::duration_ms(std::string_view key) {
  return parsed_as(key, [](const std::string& text) { return parse_duration_ms(text); });
}

std::optional<std::int64_t> map_reader::integer(std::string_view key, std::int64_t least,
                                                std::int64_t most) {
  const std::optional<std::string> written = text(key);
  if (!written) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = written->data() + written->size();
  const auto [stop, failed] = std::from_chars(written->data(), end, value);
  if (failed == std::errc{} && stop == end && value >= least && value <= most) return value;
  fault(map_.find(key)->where, "'" + std::string(key) + "' must be a whole number from " +
                                   std::to_string(least) + " to " + std::to_string(most) +
                                   ", not '" + *written + "'");
  return std::nullopt;
}

void map_reader::fault(const source_location& where, std::string message) {
  faults_.push_back({severity::error, where, std::move(message)});
}

void map_reader::warn(const source_location& where, std::string message) {
  faults_.push_back({severity::warning, where, std::move(message)});
}

void map_reader::finish() {
  for (const auto& [key, value] : map_.entries) {
    if (std::ranges::find(known_, key.text) != known_.end()) continue;
    std::string message = what_ + " has no key '" + key.text + "'";
    if (is_boolean_word(key)) {
      message += ", and YAML 1.1 reads a bare '" + key.text + "' as true or false";
    }
    // A key that is misspelt is there: it is told once.
    const auto meant = std::ranges::find(missing_, nearest_name(key.text, known_),
                                         &std::pair<std::string_view, std::size_t>::first);
    message += name_hint(key.text, known_);
    if (meant == missing_.end()) {
      fault(key.where, std::move(message));
    } else {
      faults_[meant->second] = {severity::error, key.where, std::move(message)};
      missing_.erase(meant);
    }
  }
}

void map_reader::unknown_word(std::string_view key, const std::string& name,
                              const std::vector<std::string_view>& names) {
  fault(map_.find(key)->where,
        "'" + std::string(key) + "' cannot be '" + name + "'" + name_hint(name, names));
}

}  // namespace terrane::policies::yaml
