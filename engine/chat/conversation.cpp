#include "engine/chat/conversation.hpp"

#include <utility>

namespace terrane::engine {

std::string_view to_string(chat_role role) {
  switch (role) {
    case chat_role::system:
      return "system";
    case chat_role::user:
      return "user";
    case chat_role::assistant:
      return "assistant";
  }
  return "unknown";
}

result<chat_role> parse_chat_role(std::string_view name) {
  for (const chat_role role : {chat_role::system, chat_role::user, chat_role::assistant}) {
    if (to_string(role) == name) {
      return role;
    }
  }
  std::string message("role '");
  message.append(name).append("' is none of system, user, assistant");
  return fail(error_code::invalid_input, std::move(message));
}

}  // namespace terrane::engine
