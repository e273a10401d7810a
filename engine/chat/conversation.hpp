// What is said in a chat, as the program's own values. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "kernels/result.hpp"

namespace terrane::engine {

enum class chat_role { system, user, assistant };

struct chat_message {
  chat_role role = chat_role::user;
  std::string content;  // any bytes; never read as control tokens
};

std::string_view to_string(chat_role role);

// "system", "user" or "assistant"; anything else is invalid input. A role is written into the
// prompt beside control tokens, so no other text may take its place.
result<chat_role> parse_chat_role(std::string_view name);

}  // namespace terrane::engine
