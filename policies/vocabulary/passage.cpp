#include "policies/vocabulary/passage.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace terrane::policies {
namespace {

// More than this share of its letters wrong, and something else was meant.
constexpr std::size_t letters_a_mistake = 4;

bool ends_word(char c) { return c == ' ' || c == '\n'; }

// So many changes make `wanted` of the text that begins at `from`.
struct match {
  std::size_t distance = 0;
  std::size_t from = 0;
};

struct ending {
  match of;
  std::size_t to = 0;
};

// Sellers, "The theory and computation of evolutionary distances" (1980): the edit distance with
// beginning and end in the text left free.
ending best_ending(std::string_view wanted, std::string_view text) {
  std::vector<match> column(wanted.size() + 1);
  for (std::size_t i = 0; i <= wanted.size(); ++i) column[i].distance = i;
  ending best{column.back(), 0};
  for (std::size_t j = 1; j <= text.size(); ++j) {
    match diagonal = column[0];
    column[0] = {0, j};
    for (std::size_t i = 1; i <= wanted.size(); ++i) {
      match here = diagonal;
      if (wanted[i - 1] != text[j - 1]) ++here.distance;
      for (match other : {column[i], column[i - 1]}) {
        ++other.distance;
        if (other.distance < here.distance) here = other;
      }
      diagonal = column[i];
      column[i] = here;
    }
    if (column.back().distance < best.of.distance) best = {column.back(), j};
  }
  return best;
}

}  // namespace

std::string_view nearest_passage(std::string_view wanted, std::string_view text) {
  const ending best = best_ending(wanted, text);
  if (best.of.distance > wanted.size() / letters_a_mistake) return {};
  std::size_t from = best.of.from, to = best.to;
  while (from > 0 && !ends_word(text[from - 1])) --from;
  while (to < text.size() && !ends_word(text[to])) ++to;
  std::string_view passage = text.substr(from, to - from);
  // What spans lines is told up to the first one's end.
  passage.remove_prefix(std::min(passage.find_first_not_of(" \n"), passage.size()));
  return passage.substr(0, passage.find('\n'));
}

}  // namespace terrane::policies
