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
  // Invalid input: no messages.
  result<std::vector<chat_piece>> pieces(std::span<const chat_message> conversation,
                                         std::string_view today = {}) const;

  // The same as tokens of `words`, the tokenizer that the format was recognised from.
  result<std::vector<token_id>> encode(const tokenizer& words,
                                       std::span<const chat_message> conversation,
                                       std::string_view today = {}) const;

  // What follows a reply that has just ended without its last control token: that token, the new
  // messages, and the beginning of the next reply. After the tokens of a reply these are the tokens
  // of the whole conversation, if the reply's are the ones that its text is encoded to. Invalid
  // input: no messages.
  result<std::vector<token_id>> encode_next(const tokenizer& words,
                                            std::span<const chat_message> messages) const;

  // "ChatML" or "Llama 3".
  std::string_view name() const;

 private:
  class writer;
  chat_format() = default;
  void write_header(writer& out, chat_role role) const;
  void write_end(writer& out) const;
  void write_message(writer& out, const chat_message& message) const;
  std::span<const chat_message> write_system(writer& out, std::string_view today,
                                             std::span<const chat_message> conversation) const;

  template_facts facts_;
  token_id open_ = 0;         // <|im_start|> or <|start_header_id|>
  token_id end_header_ = 0;   // Llama 3 only: <|end_header_id|>
  token_id end_message_ = 0;  // <|im_end|> or <|eot_id|>
  std::optional<token_id> bos_;
};

}  // namespace terrane::engine
