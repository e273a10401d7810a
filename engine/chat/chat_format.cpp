#include "engine/chat/chat_format.hpp"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

// What Jinja's `trim` drops, which is what Python calls white space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view trimmed(std::string_view text) {
  std::size_t begin = std::string_view::npos, end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const decoded_character c = decode_character(text.substr(at));
    if (!c.valid || !is_white_space(c.code_point)) {
      begin = std::min(begin, at);
      end = at + c.length;
    }
    at += c.length;
  }
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin);
}

result<token_id> require_control(const tokenizer& words, std::string_view text) {
  if (const auto id = words.find_control(text)) {
    return *id;
  }
  return fail(error_code::unsupported,
              "the chat template uses " + std::string(text) +
                  ", which is not in the vocabulary; the model cannot chat, but completing raw "
                  "text works",
              "tokenizer.chat_template");
}

}  // namespace

// Joins neighbouring texts: byte pairs merge across the seam, as they do in the template's output.
class chat_format::writer {
 public:
  void token(token_id id) { pieces_.emplace_back(id); }

  void text(std::string_view more) {
    if (more.empty()) {
      return;
    }
    if (pieces_.empty() || !std::holds_alternative<std::string>(pieces_.back())) {
      pieces_.emplace_back(std::string());
    }
    std::get<std::string>(pieces_.back()) += more;
  }

  std::vector<chat_piece> take() { return std::move(pieces_); }

 private:
  std::vector<chat_piece> pieces_;
};

result<chat_format> chat_format::recognise(const tokenizer& words) {
  auto facts = read_template(words.words().chat_template);
  if (!facts) {
    return tl::unexpected(facts.error());
  }
  const bool is_chatml = facts->family == chat_family::chatml;
  chat_format made;
  made.facts_ = *std::move(facts);
  const std::pair<std::string_view, token_id*> needed[] = {
      {is_chatml ? "<|im_start|>" : "<|start_header_id|>", &made.open_},
      {is_chatml ? "<|im_end|>" : "<|end_header_id|>", &made.end_header_},
      {is_chatml ? "<|im_end|>" : "<|eot_id|>", &made.end_message_}};
  for (const auto& [text, id] : needed) {
    auto found = require_control(words, text);
    if (!found) {
      return tl::unexpected(found.error());
    }
    *id = *found;
  }
  if (made.facts_.begins_with_bos) {
    made.bos_ = words.words().bos;
  }
  return made;
}

std::string_view chat_format::name() const {
  return facts_.family == chat_family::chatml ? "ChatML" : "Llama 3";
}

void chat_format::write_header(writer& out, chat_role role) const {
  out.token(open_);
  out.text(to_string(role));
  if (facts_.family == chat_family::chatml) {
    out.text("\n");
  } else {
    out.token(end_header_);
    out.text("\n\n");
  }
}

void chat_format::write_end(writer& out) const {
  out.token(end_message_);
  if (facts_.family == chat_family::chatml) {
    out.text("\n");
  }
}

void chat_format::write_message(writer& out, const chat_message& message) const {
  write_header(out, message.role);
  out.text(facts_.trims_content ? trimmed(message.content) : std::string_view(message.content));
  write_end(out);
}

// The system message that the template writes by itself, if it does. Returns the messages that are
// still to be written.
std::span<const chat_message> chat_format::write_system(
    writer& out, std::string_view today, std::span<const chat_message> conversation) const {
  const bool has_system = conversation.front().role == chat_role::system;
  if (facts_.has_dated_preamble) {
    write_header(out, chat_role::system);
    out.text("Cutting Knowledge Date: " + facts_.knowledge_date + "\nToday Date: ");
    out.text(today.empty() ? std::string_view(facts_.today) : today);
    out.text("\n\n");
    if (has_system) {
      out.text(trimmed(conversation.front().content));
    }
    write_end(out);
    return conversation.subspan(has_system ? 1 : 0);
  }
  if (!has_system && !facts_.default_system.empty()) {
    write_message(out, {chat_role::system, facts_.default_system});
  }
  return conversation;
}

result<std::vector<chat_piece>> chat_format::pieces(std::span<const chat_message> conversation,
                                                    std::string_view today) const {
  if (conversation.empty()) {
    return fail(error_code::invalid_input, "the conversation has no messages");
  }
  writer out;
  if (bos_) {
    out.token(*bos_);
  }
  for (const chat_message& message : write_system(out, today, conversation)) {
    write_message(out, message);
  }
  write_header(out, chat_role::assistant);
  return out.take();
}

namespace {

result<std::vector<token_id>> tokens_of(const tokenizer& words,
                                        std::span<const chat_piece> pieces) {
  std::vector<token_id> ids;
  for (const chat_piece& part : pieces) {
    if (const token_id* id = std::get_if<token_id>(&part)) {
      ids.push_back(*id);
      continue;
    }
    auto more = words.encode(std::get<std::string>(part), special_text::as_text);
    if (!more) {
      return more;
    }
    ids.insert(ids.end(), more->begin(), more->end());
  }
  return ids;
}

}  // namespace

result<std::vector<token_id>> chat_format::encode(const tokenizer& words,
                                                  std::span<const chat_message> conversation,
                                                  std::string_view today) const {
  auto parts = pieces(conversation, today);
  if (!parts) {
    return tl::unexpected(parts.error());
  }
  return tokens_of(words, *parts);
}

result<std::vector<token_id>> chat_format::encode_next(
    const tokenizer& words, std::span<const chat_message> messages) const {
  if (messages.empty()) {
    return fail(error_code::invalid_input, "there are no new messages");
  }
  writer out;
  write_end(out);
  for (const chat_message& message : messages) {
    write_message(out, message);
  }
  write_header(out, chat_role::assistant);
  return tokens_of(words, out.take());
}

}  // namespace terrane::engine
