// Reads what the scripts in tests/golden write.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gguf/file.hpp"
#include "engine/tokenizer/from_gguf.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine::golden {

inline std::vector<std::string> lines_at(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.is_open()) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

inline std::vector<std::string> lines_of(const std::string& name) {
  return lines_at(std::string(TERRANE_TEST_DATA) + "/golden/" + name);
}

// Undoes escapes.py: \xHH is a byte.
inline std::string unescape(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line.compare(i, 2, "\\x") == 0) {
      out.push_back(static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16)));
      i += 3;
    } else {
      out.push_back(line[i]);
    }
  }
  return out;
}

// The ids of a line "NAME id id ...".
inline std::vector<token_id> ids_of(const std::string& line, const std::string& name) {
  std::istringstream in(line);
  std::string first;
  in >> first;
  EXPECT_EQ(first, name);
  std::vector<token_id> ids;
  for (token_id id = 0; in >> id;) {
    ids.push_back(id);
  }
  return ids;
}

// The path of SmolLM2-135M-Instruct Q4_1, or empty: the test then skips itself.
inline std::string smollm2_path() {
  const char* path = std::getenv("TERRANE_SMOLLM2");
  return path == nullptr ? "" : path;
}

inline constexpr const char* skip_reason =
    "TERRANE_SMOLLM2 is not set; it is the path of SmolLM2-135M-Instruct.Q4_1.gguf";

inline result<tokenizer> open_tokenizer(const std::string& path) {
  auto file = gguf::file::open(path);
  if (!file) {
    return tl::unexpected(file.error());
  }
  return read_vocabulary(file->meta()).and_then(tokenizer::make);
}

// Whether the text has a "</s>" that is an end tag of HTML in this vocabulary, not a control token.
// llama.cpp takes it for one in every vocabulary, so the ids are meant to differ.
inline bool is_html_end_tag_here(const tokenizer& words, const std::string& text) {
  if (text.find("</s>") == text.npos) {
    return false;
  }
  const auto& tokens = words.words().tokens;
  const auto at = std::find(tokens.begin(), tokens.end(), "</s>");
  return at != tokens.end() && !words.is_control(static_cast<token_id>(at - tokens.begin()));
}

}  // namespace terrane::engine::golden
