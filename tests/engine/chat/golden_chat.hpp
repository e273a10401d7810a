// Reads what tests/golden/make_chat.py writes.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/chat/conversation.hpp"
#include "tests/engine/tokenizer/golden_file.hpp"

namespace terrane::engine::golden {

struct chat_case {
  std::vector<chat_message> messages;
  std::vector<token_id> ids;
  bool raises = false;  // the template refused the conversation
};

inline std::vector<chat_case> chat_cases_at(const std::string& path) {
  std::vector<chat_case> cases;
  for (const std::string& line : lines_at(path)) {
    if (line == "conversation") {
      cases.emplace_back();
    } else if (line == "raises") {
      cases.back().raises = true;
    } else if (line.starts_with("ids")) {
      cases.back().ids = ids_of(line, "ids");
    } else {
      const std::size_t space = line.find(' ');
      const auto role = parse_chat_role(line.substr(0, space));
      EXPECT_TRUE(role) << line;
      cases.back().messages.push_back({*role, unescape(line.substr(space + 1))});
    }
  }
  return cases;
}

}  // namespace terrane::engine::golden
