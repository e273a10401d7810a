// The pieces that every pre-tokenizer cuts the 500 strings of tests/golden into. Needs no
// vocabulary.
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/pre_tokenizer_rules.hpp"
#include "tests/engine/tokenizer/golden_file.hpp"

namespace terrane::engine {
namespace {

// Names that share the patterns of another.
const std::map<std::string, std::string> same_as = {
    {"mpt", "gpt-2"},        {"starcoder", "smollm"}, {"refact", "smollm"},
    {"command-r", "smollm"}, {"llama3", "llama-bpe"}, {"llama-v3", "llama-bpe"},
};

// For each rule, a line for each string.
std::map<std::string, std::vector<std::string>> expected_lines() {
  std::map<std::string, std::vector<std::string>> lines;
  std::string rule;
  for (const std::string& line : golden::lines_of("splits.txt")) {
    if (line.starts_with("rule ")) {
      rule = line.substr(5);
    } else {
      lines[rule].push_back(line);
    }
  }
  return lines;
}

std::string lengths_of(const std::vector<std::string_view>& pieces) {
  std::ostringstream out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    out << (i == 0 ? "" : " ") << pieces[i].size();
  }
  return out.str();
}

TEST(splits, are_where_llama_cpp_cuts_500_strings) {
  const auto strings = golden::lines_of("strings.txt");
  const auto expected = expected_lines();
  std::set<std::string> compared;
  for (const pre_tokenizer_rule& rule : pre_tokenizer_rules()) {
    const std::string name(rule.name);
    const auto at = same_as.find(name);
    const std::string of = at == same_as.end() ? name : at->second;
    ASSERT_EQ(expected.count(of), 1u) << name << " has no golden";
    const auto& lines = expected.at(of);
    ASSERT_EQ(lines.size(), strings.size()) << name;
    const auto splitter = pre_tokenizer::make(name);
    ASSERT_TRUE(splitter) << to_string(splitter.error());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      if (lines[i] == "-") {
        continue;
      }
      const std::string text = repair_utf8(golden::unescape(strings[i]));
      const auto pieces = splitter->split(text);
      ASSERT_TRUE(pieces);
      EXPECT_EQ(lengths_of(*pieces), lines[i]) << name << ' ' << i << ": " << strings[i];
    }
    compared.insert(of);
  }
  EXPECT_EQ(compared.size(), expected.size());
}

}  // namespace
}  // namespace terrane::engine
