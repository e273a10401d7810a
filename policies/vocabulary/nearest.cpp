#include "policies/vocabulary/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace terrane::policies {
namespace {

// Longer texts are not misspelt names, and comparing them would cost for nothing.
constexpr std::size_t longest_name = 64;

bool same_letter(char a, char b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return lower(a) == lower(b);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  if (name.empty() || name.size() > longest_name) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 2);
  for (const std::string_view known : names) {
    const std::size_t distance = edit_distance(name, known);
    if (distance <= best_distance && (best.empty() || distance < best_distance)) {
      best = known;
      best_distance = distance;
    }
  }
  return best;
}

std::string name_hint(std::string_view name, std::span<const std::string_view> names) {
  const std::string_view near = nearest_name(name, names);
  if (!near.empty()) return "; did you mean '" + std::string(near) + "'?";
  std::string text = "; known: ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  return text;
}

std::string names_within(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t most_told = 4;
  const std::string beginning = std::string(name) + ".";
  std::string text;
  std::size_t count = 0;
  for (const std::string_view known : names) {
    if (!known.starts_with(beginning) || count++ >= most_told) continue;
    text += (text.empty() ? "'" : ", '") + std::string(known) + "'";
  }
  if (count > most_told) text += " and " + std::to_string(count - most_told) + " more";
  return text;
}

}  // namespace terrane::policies
