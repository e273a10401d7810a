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

// The longest token that begins at `begin` and has at most `limit` bytes; length 0: none. The range
// of tokens that share the text's first n bytes gets narrower with each byte.
special_tokens::match special_tokens::longest(std::string_view text, std::size_t begin,
                                              std::size_t limit) const {
  match found{begin, 0, 0};
  auto first = tokens_.begin(), last = tokens_.end();
  for (std::size_t n = 0; n < limit && begin + n < text.size(); ++n) {
    const auto byte = static_cast<std::uint8_t>(text[begin + n]);
    // Within the range, all are longer than n: the one of exactly n bytes sorts first and was
    // taken.
    const auto at = [n](const auto& token) { return static_cast<std::uint8_t>(token.first[n]); };
    first = std::partition_point(first, last, [&](const auto& t) { return at(t) < byte; });
    last = std::partition_point(first, last, [&](const auto& t) { return at(t) == byte; });
    if (first == last) {
      break;
    }
    if (first->first.size() == n + 1) {
      found = {begin, n + 1, first->second};
      ++first;
    }
  }
  return found;
}

// One candidate for each place, the longest: a shorter one at the same place counts only when what
// was taken leaves no room for it. So a vocabulary with a token for every run of spaces costs no
// more than one with a single one.
std::vector<special_tokens::match> special_tokens::find(std::string_view text) const {
  const auto is_later = [](const match& a, const match& b) {
    return std::tuple(b.length, a.token, a.begin) > std::tuple(a.length, b.token, b.begin);
  };
  std::vector<match> heap;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (const match m = longest(text, begin, text.size()); m.length > 0) {
      heap.push_back(m);
    }
  }
  std::make_heap(heap.begin(), heap.end(), is_later);
  std::map<std::size_t, match> taken;  // by begin
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    const match m = heap.back();
    heap.pop_back();
    const auto after = taken.lower_bound(m.begin);
    if (after != taken.begin()) {
      const match& before = std::prev(after)->second;
      if (before.begin + before.length > m.begin) {
        continue;
      }
    }
    if (after != taken.end() && after->first < m.begin + m.length) {
      if (const match shorter = longest(text, m.begin, after->first - m.begin);
          shorter.length > 0) {
        heap.push_back(shorter);
        std::push_heap(heap.begin(), heap.end(), is_later);
      }
      continue;
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
