// Turns a conversation into the tokens that a model was trained to continue. A format is recognised
// from the chat template in the model's file together with its control tokens; a model whose format
// is not known is refused for chat by a message that says what was found, and still completes raw
// text. What people write stays text: control tokens come only from here. Immutable; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/chat/conversation.hpp"
#include "engine/chat/template_facts.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

// A control token, or text to be encoded as text.
using chat_piece = std::variant<token_id, std::string>;

class chat_format {
 public:
  // Unsupported: see read_template, or the vocabulary lacks a control token that the template uses.
  static result<chat_format> recognise(const tokenizer& words);

  // The conversation and the beginning of the assistant's reply, as the model's own template writes
  // them; no bos token is to be added. Neighbouring pieces are never both text. `today`, such as
  // "26 Jul 2024", matters to Llama 3.1 and later; without it the template's own date stands.
  // Invalid input: no messages, or an order of roles that the template does not provide for.
  result<std::vector<chat_piece>> pieces(std::span<const chat_message> conversation,
                                         std::string_view today = {}) const;

  // The same as tokens of `words`, the tokenizer that the format was recognised from.
  result<std::vector<token_id>> encode(const tokenizer& words,
                                       std::span<const chat_message> conversation,
                                       std::string_view today = {}) const;

  // What follows a reply that has just ended without its last control token: that token, the new
  // messages, and the beginning of the next reply. After the tokens of a reply these are the tokens
  // of the whole conversation, if the reply's are the ones that its text is encoded to; except that
  // a system message which the template would put into the last user message stays in the one that
  // it was first put into. Invalid input: as above, and a system message where it has no turn of
  // its own.
  result<std::vector<token_id>> encode_next(const tokenizer& words,
                                            std::span<const chat_message> messages) const;

  // "ChatML", for example.
  std::string_view name() const { return to_string(facts_.family); }

 private:
  class writer;
  struct turn {
    std::vector<chat_piece> before, after;
  };

  chat_format() = default;
  result<void> resolve(const tokenizer& words);
  const turn& turn_of(chat_role role) const;
  std::string_view content_of(const chat_message& message) const;
  result<void> check_order(std::span<const chat_message> messages) const;
  void write_message(writer& out, const chat_message& message) const;
  void write_dated_system(writer& out, const chat_message* system, std::string_view today) const;
  void write_user_with_system(writer& out, const chat_message& system,
                              const chat_message& user) const;
  result<void> write_joined(writer& out, std::span<const chat_message> conversation) const;

  template_facts facts_;
  turn system_, user_, assistant_;
  std::vector<chat_piece> reply_;
  std::optional<token_id> bos_;
};

}  // namespace terrane::engine
