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

// The control tokens that markup spells. Those in brackets are plain text in some vocabularies: in
// Llama 2's and in the first of Mistral's.
struct markup_token {
  std::string_view text;
  bool may_be_text = false;
};
constexpr markup_token markup_tokens[] = {
    {"<|im_start|>"},      {"<|im_end|>"},      {"<|start_header_id|>"},
    {"<|end_header_id|>"}, {"<|eot_id|>"},      {"<start_of_turn>"},
    {"<end_of_turn>"},     {"<|system|>"},      {"<|user|>"},
    {"<|assistant|>"},     {"<|end|>"},         {"[INST]", true},
    {"[/INST]", true},     {"[SYSTEM_PROMPT]"}, {"[/SYSTEM_PROMPT]"},
};

tl::unexpected<error> lacks(std::string_view what) {
  return fail(error_code::unsupported,
              "the chat template uses " + std::string(what) +
                  ", which is not in the vocabulary; the model cannot chat, but completing raw "
                  "text works",
              "tokenizer.chat_template");
}

const markup_token* token_at_front(std::string_view markup) {
  const auto* at =
      std::find_if(std::begin(markup_tokens), std::end(markup_tokens),
                   [&](const markup_token& known) { return markup.starts_with(known.text); });
  return at == std::end(markup_tokens) ? nullptr : at;
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

  void pieces(std::span<const chat_piece> more) {
    for (const chat_piece& piece : more) {
      if (const token_id* id = std::get_if<token_id>(&piece)) {
        token(*id);
      } else {
        text(std::get<std::string>(piece));
      }
    }
  }

  // Markup as template_facts has it.
  result<void> markup(const tokenizer& words, std::string_view spelt) {
    while (!spelt.empty()) {
      std::size_t length = 1;
      if (spelt[0] == bos_mark || spelt[0] == eos_mark) {
        const auto id = spelt[0] == bos_mark ? words.words().bos : words.words().eos;
        if (!id) {
          return lacks(spelt[0] == bos_mark ? "bos_token" : "eos_token");
        }
        token(*id);
      } else if (const markup_token* known = token_at_front(spelt)) {
        length = known->text.size();
        const auto id = words.find_control(known->text);
        if (!id && !known->may_be_text) {
          return lacks(known->text);
        }
        id ? token(*id) : text(known->text);
      } else {
        text(spelt.substr(0, 1));
      }
      spelt.remove_prefix(length);
    }
    return {};
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
  chat_format made;
  made.facts_ = *std::move(facts);
  if (auto resolved = made.resolve(words); !resolved) {
    return tl::unexpected(resolved.error());
  }
  if (made.facts_.begins_with_bos) {
    made.bos_ = words.words().bos;
  }
  return made;
}

// Finds the control tokens of all markup.
result<void> chat_format::resolve(const tokenizer& words) {
  const std::pair<std::string_view, std::vector<chat_piece>*> all[] = {
      {facts_.system.before, &system_.before},
      {facts_.system.after, &system_.after},
      {facts_.user.before, &user_.before},
      {facts_.user.after, &user_.after},
      {facts_.assistant.before, &assistant_.before},
      {facts_.assistant.after, &assistant_.after},
      {facts_.reply, &reply_}};
  for (const auto& [markup, into] : all) {
    writer out;
    if (auto written = out.markup(words, markup); !written) {
      return written;
    }
    *into = out.take();
  }
  return {};
}

const chat_format::turn& chat_format::turn_of(chat_role role) const {
  return role == chat_role::system ? system_ : role == chat_role::user ? user_ : assistant_;
}

std::string_view chat_format::content_of(const chat_message& message) const {
  const bool trims =
      message.role == chat_role::assistant ? facts_.trims_reply : facts_.trims_content;
  return trims ? trimmed(message.content) : std::string_view(message.content);
}

void chat_format::write_message(writer& out, const chat_message& message) const {
  if (facts_.skips_empty_system && message.role == chat_role::system && message.content.empty()) {
    return;
  }
  const turn& around = turn_of(message.role);
  out.pieces(around.before);
  out.text(content_of(message));
  out.pieces(around.after);
}

// The system message of Llama 3.1 and later, which is there even if the caller gives none.
void chat_format::write_dated_system(writer& out, const chat_message* system,
                                     std::string_view today) const {
  out.pieces(system_.before);
  out.text("Cutting Knowledge Date: " + facts_.knowledge_date + "\nToday Date: ");
  out.text(today.empty() ? std::string_view(facts_.today) : today);
  out.text("\n\n");
  if (system != nullptr) {
    out.text(trimmed(system->content));
  }
  out.pieces(system_.after);
}

// Whether the template provides for these roles; a system message at the front is not among them
// where it has no turn of its own.
result<void> chat_format::check_order(std::span<const chat_message> messages) const {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const chat_role role = messages[i].role;
    if (role == chat_role::system && facts_.place != system_place::own_turn) {
      return fail(error_code::invalid_input,
                  facts_.place == system_place::nowhere
                      ? "the model's chat template has no place for a system message"
                      : "the model's chat template takes a system message at the beginning only");
    }
    const chat_role due = i % 2 == 0 ? chat_role::user : chat_role::assistant;
    if (facts_.alternates && role != due) {
      return fail(error_code::invalid_input,
                  "message " + std::to_string(i + 1) + " is from '" + std::string(to_string(role)) +
                      "', but the model's chat template wants '" + std::string(to_string(due)) +
                      "' there: user and assistant take turns, the user first");
    }
  }
  return {};
}

void chat_format::write_user_with_system(writer& out, const chat_message& system,
                                         const chat_message& user) const {
  const std::string_view content =
      facts_.trims_with_system ? std::string_view(user.content) : content_of(user);
  std::string joined = facts_.system.before + system.content + facts_.system.after;
  joined += content;
  out.pieces(user_.before);
  out.text(facts_.trims_with_system ? trimmed(joined) : std::string_view(joined));
  out.pieces(user_.after);
}

// A conversation whose system message goes into a user message.
result<void> chat_format::write_joined(writer& out,
                                       std::span<const chat_message> conversation) const {
  const chat_message& system = conversation.front();
  const auto rest = conversation.subspan(1);
  if (auto checked = check_order(rest); !checked) {
    return checked;
  }
  const bool first = facts_.place == system_place::first_user;
  if (rest.empty() || (first ? rest.front() : rest.back()).role != chat_role::user) {
    return fail(error_code::invalid_input,
                std::string("the model's chat template writes the system message into the ") +
                    (first ? "first" : "last") + " user message, and the conversation does not " +
                    (first ? "go on" : "end") + " with one");
  }
  const std::size_t at = first ? 0 : rest.size() - 1;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i == at) {
      write_user_with_system(out, system, rest[i]);
    } else {
      write_message(out, rest[i]);
    }
  }
  return {};
}

result<std::vector<chat_piece>> chat_format::pieces(std::span<const chat_message> conversation,
                                                    std::string_view today) const {
  if (conversation.empty()) {
    return fail(error_code::invalid_input, "the conversation has no messages");
  }
  const bool has_system = conversation.front().role == chat_role::system;
  writer out;
  if (bos_) {
    out.token(*bos_);
  }
  if (has_system &&
      (facts_.place == system_place::first_user || facts_.place == system_place::last_user)) {
    if (auto written = write_joined(out, conversation); !written) {
      return tl::unexpected(written.error());
    }
    out.pieces(reply_);
    return out.take();
  }
  if (facts_.has_dated_preamble) {
    write_dated_system(out, has_system ? &conversation.front() : nullptr, today);
    conversation = conversation.subspan(has_system ? 1 : 0);
  } else if (!has_system && !facts_.default_system.empty()) {
    write_message(out, {chat_role::system, facts_.default_system});
  }
  if (auto checked = check_order(conversation); !checked) {
    return tl::unexpected(checked.error());
  }
  for (const chat_message& message : conversation) {
    write_message(out, message);
  }
  out.pieces(reply_);
  return out.take();
}

namespace {

// `continues_text`: the first piece follows text.
result<std::vector<token_id>> tokens_of(const tokenizer& words, std::span<const chat_piece> pieces,
                                        bool continues_text) {
  std::vector<token_id> ids;
  text_seam before{continues_text, std::nullopt};
  for (const chat_piece& part : pieces) {
    if (const token_id* id = std::get_if<token_id>(&part)) {
      ids.push_back(*id);
      before = {false, *id};
      continue;
    }
    auto more = words.encode(std::get<std::string>(part), special_text::as_text, before);
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
  return tokens_of(words, *parts, false);
}

result<std::vector<token_id>> chat_format::encode_next(
    const tokenizer& words, std::span<const chat_message> messages) const {
  if (messages.empty()) {
    return fail(error_code::invalid_input, "there are no new messages");
  }
  if (auto checked = check_order(messages); !checked) {
    return tl::unexpected(checked.error());
  }
  writer out;
  out.pieces(assistant_.after);
  for (const chat_message& message : messages) {
    write_message(out, message);
  }
  out.pieces(reply_);
  return tokens_of(words, out.take(), true);
}

}  // namespace terrane::engine
