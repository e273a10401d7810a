#include "engine/tokenizer/special_tokens.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

namespace terrane::engine {

special_tokens::special_tokens(std::vector<std::pair<std::string, token_id>> tokens)
    : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end());
}

// Every token that begins at `begin`: the range of tokens that share the text's first n bytes gets
// narrower with each byte.
void special_tokens::collect(std::string_view text, std::size_t begin,
                             std::vector<match>& found) const {
  auto first = tokens_.begin(), last = tokens_.end();
  for (std::size_t n = 0; begin + n < text.size(); ++n) {
    const auto byte = static_cast<std::uint8_t>(text[begin + n]);
    // Within the range, all are longer than n: the one of exactly n bytes sorts first and was
    // taken.
    const auto at = [n](const auto& token) { return static_cast<std::uint8_t>(token.first[n]); };
    first = std::partition_point(first, last, [&](const auto& t) { return at(t) < byte; });
    last = std::partition_point(first, last, [&](const auto& t) { return at(t) == byte; });
    if (first == last) {
      return;
    }
    if (first->first.size() == n + 1) {
      found.push_back({begin, n + 1, first->second});
      ++first;
    }
  }
}

std::vector<special_tokens::match> special_tokens::find(std::string_view text) const {
  std::vector<match> found;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    collect(text, begin, found);
  }
  std::sort(found.begin(), found.end(), [](const match& a, const match& b) {
    return std::tuple(b.length, a.token, a.begin) < std::tuple(a.length, b.token, b.begin);
  });
  std::map<std::size_t, match> taken;  // by begin
  for (const match& m : found) {
    const auto after = taken.lower_bound(m.begin);
    if (after != taken.end() && after->first < m.begin + m.length) {
      continue;
    }
    if (after != taken.begin()) {
      const match& before = std::prev(after)->second;
      if (before.begin + before.length > m.begin) {
        continue;
      }
    }
    taken.emplace_hint(after, m.begin, m);
  }
  std::vector<match> in_order;
  in_order.reserve(taken.size());
  for (const auto& [begin, m] : taken) {
    in_order.push_back(m);
  }
  return in_order;
}

}  // namespace terrane::engine
