#include "ipc/control/part_pattern.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace terrane::ipc {
namespace {

// Cuts the first name off.
std::string_view next_name(std::string_view& rest) {
  const std::size_t dot = rest.find('.');
  const std::string_view name = rest.substr(0, dot);
  rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  return name;
}

std::optional<long> number(std::string_view text) {
  long value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = wrong == std::errc() && end == text.data() + text.size();
  return all && value >= 0 ? std::optional(value) : std::nullopt;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  if (pattern == "*" || pattern == name) {
    return true;
  }
  const std::size_t dash = pattern.find('-');
  if (dash == std::string_view::npos) {
    return false;
  }
  const auto first = number(pattern.substr(0, dash));
  const auto last = number(pattern.substr(dash + 1));
  const auto value = number(name);
  return first && last && value && *first <= *value && *value <= *last;
}

}  // namespace

bool part_matches(std::string_view pattern, std::string_view part) {
  if (pattern == "all") {
    return true;
  }
  while (!pattern.empty()) {
    if (part.empty() || !name_matches(next_name(pattern), next_name(part))) {
      return false;
    }
  }
  return true;
}

tl::expected<std::vector<std::string>, std::string> expand_parts(
    const std::vector<std::string>& patterns, const std::vector<std::string>& parts) {
  std::vector<bool> wanted(parts.size());
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!pattern.empty() && part_matches(pattern, parts[i])) {
        wanted[i] = matched = true;
      }
    }
    if (!matched) {
      return tl::unexpected(pattern);
    }
  }
  std::vector<std::string> found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (wanted[i]) {
      found.push_back(parts[i]);
    }
  }
  return found;
}

}  // namespace terrane::ipc
