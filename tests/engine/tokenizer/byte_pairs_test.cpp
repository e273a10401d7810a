// Byte pairs against the definition, spelt out slowly, on random vocabularies and pieces.
#include "engine/tokenizer/byte_pairs.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

// Joins the earliest listed pair, the leftmost of equals, until there is none.
std::vector<std::string> merged_slowly(const std::vector<std::string>& merges,
                                       const std::string& piece) {
  std::vector<std::string> parts;
  for (const char c : piece) {
    parts.emplace_back(1, c);
  }
  for (;;) {
    std::size_t best_rank = merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::string pair = parts[i] + " " + parts[i + 1];
      const auto rank = std::find(merges.begin(), merges.end(), pair) - merges.begin();
      if (static_cast<std::size_t>(rank) < best_rank) {
        best_rank = static_cast<std::size_t>(rank);
        best = i;
      }
    }
    if (best_rank == merges.size()) {
      return parts;
    }
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(byte_pairs, equal_the_definition_on_random_vocabularies) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c", "d"}, merges;
    std::set<std::string> known(tokens.begin(), tokens.end());
    for (std::size_t count = below(25); merges.size() < count;) {
      const std::string left = tokens[below(tokens.size())], right = tokens[below(tokens.size())];
      merges.push_back(left + " " + right);  // perhaps a second time
      if (known.insert(left + right).second) {
        tokens.push_back(left + right);
      }
    }
    const auto pairs = byte_pairs::make(tokens, std::vector<bool>(tokens.size(), true), merges);
    ASSERT_TRUE(pairs);
    for (int text = 0; text < 20; ++text) {
      std::string piece;
      for (std::size_t n = below(40); piece.size() < n;) {
        piece.push_back(static_cast<char>('a' + below(round % 3 == 0 ? 2 : 4)));
      }
      std::vector<token_id> ids;
      pairs->append(piece, ids);
      std::vector<std::string> parts;
      for (const token_id id : ids) {
        parts.push_back(tokens[id]);
      }
      ASSERT_EQ(parts, merged_slowly(merges, piece)) << piece;
    }
  }
}

TEST(byte_pairs, an_empty_one_spells_nothing) {
  const auto pairs = byte_pairs::make({"x"}, {true}, {}).value();
  std::vector<token_id> ids;
  pairs.append("", ids);
  pairs.append("yz", ids);
  EXPECT_TRUE(ids.empty());
  EXPECT_FALSE(pairs.append_whole("y", ids));
  EXPECT_TRUE(pairs.append_whole("x", ids));
  EXPECT_EQ(ids, std::vector<token_id>{0});
}

}  // namespace
}  // namespace terrane::engine
