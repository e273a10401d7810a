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

struct range {
  long first;
  long last;
};

// "N-M", else nothing.
std::optional<range> range_of(std::string_view pattern) {
  const std::size_t dash = pattern.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto first = number(pattern.substr(0, dash));
  const auto last = number(pattern.substr(dash + 1));
  return first && last ? std::optional(range{*first, *last}) : std::nullopt;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  if (pattern == "*" || pattern == name) {
    return true;
  }
  const auto span = range_of(pattern);
  const auto value = number(name);
  return span && value && span->first <= *value && *value <= span->last;
}

bool matches_any(std::string_view pattern, const std::vector<std::string>& parts) {
  return !pattern.empty() && std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return part_matches(pattern, part);
  });
}

// The pattern with each range cut down to one of its ends.
std::string end_of(std::string_view pattern, long range::*end) {
  std::string out;
  while (!pattern.empty()) {
    const std::string_view name = next_name(pattern);
    const auto span = range_of(name);
    out += (out.empty() ? "" : ".") + (span ? std::to_string((*span).*end) : std::string(name));
  }
  return out;
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
    // Both ends of a range must exist: "layer.0-99" of a model with 32 layers is a slip.
    if (!matches_any(pattern, parts) || !matches_any(end_of(pattern, &range::first), parts) ||
        !matches_any(end_of(pattern, &range::last), parts)) {
      return tl::unexpected(pattern);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      wanted[i] = wanted[i] || part_matches(pattern, parts[i]);
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
