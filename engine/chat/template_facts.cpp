#include "engine/chat/template_facts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/chat/template_parts.hpp"
#include "engine/chat/turn_templates.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// How a family writes a message; the content may be followed by "|trim".
struct expression {
  std::string_view before_content, after_content;
};
constexpr std::array chatml_message = {
    expression{R"(<|im_start|>'+message['role']+'\n'+message['content'])", R"(+'<|im_end|>'+'\n')"},
    expression{R"(<|im_start|>'+message['role']+'\n'+message['content'])", R"(+'<|im_end|>\n')"},
};
constexpr std::array llama3_message = {
    expression{R"(<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'+message['content'])",
               R"(+'<|eot_id|>')"},
};

// Whether the content is trimmed; empty when the template does not write messages so.
template <std::size_t N>
std::optional<bool> writes_messages(std::string_view spelling,
                                    const std::array<expression, N>& forms) {
  for (const expression& form : forms) {
    for (const bool trims : {false, true}) {
      std::string whole(form.before_content);
      whole.append(trims ? "|trim" : "").append(form.after_content);
      if (contains(spelling, whole)) {
        return trims;
      }
    }
  }
  return std::nullopt;
}

std::string unescape(std::string_view literal) {
  std::string out;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out.push_back(literal[i]);
      continue;
    }
    const char escaped = literal[++i];
    out.push_back(escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped);
  }
  return out;
}

// No literal of a template is longer; a bound keeps the search linear on hostile ones.
constexpr std::size_t literal_limit = 4096;

// The text at the front of `rest` up to the quote that closes its literal, or all of it.
std::string_view up_to_quote(std::string_view rest) {
  std::size_t close = 0;
  while (close < rest.size() && rest[close] != '\'') {
    close += rest[close] == '\\' ? 2 : 1;
  }
  return rest.substr(0, close);
}

// What follows `begin`, up to `end` or to the closing quote if `end` is empty, in the first string
// literal that has both; empty if there is none. `begin` includes the opening quote.
std::string constant_after(std::string_view spelling, std::string_view begin,
                           std::string_view end) {
  for (std::size_t at = spelling.find(begin); at != std::string_view::npos;
       at = spelling.find(begin, at + 1)) {
    const std::string_view rest = spelling.substr(at + begin.size(), literal_limit);
    const std::string_view literal = up_to_quote(rest);
    if (literal.size() == rest.size()) {
      continue;
    }
    const std::size_t length = end.empty() ? literal.size() : literal.find(end);
    if (length != std::string_view::npos) {
      return unescape(literal.substr(0, length));
    }
  }
  return {};
}

tl::unexpected<error> refuse(const std::string& what) {
  return fail(
      error_code::unsupported,
      what +
          ". Supported are ChatML (as SmolLM2, Qwen2 and Qwen2.5 write it), Llama 3 to 3.3, "
          "Llama 2, Mistral, Gemma 1 to 3 and Phi 3; completing raw text works with every "
          "model",
      "tokenizer.chat_template");
}

// Whether every place where a ChatML template writes a system message by itself is understood: with
// the first message, with a constant (the default), or for tools, which are never passed.
bool understands_system(std::string_view spelling) {
  constexpr std::string_view begin = R"('<|im_start|>system\n)";
  constexpr std::string_view of_first = R"('+messages[0]['content']+'<|im_end|>\n')";
  constexpr std::string_view for_tools = "{%iftools%}{{";
  for (std::size_t at = spelling.find(begin); at != std::string_view::npos;
       at = spelling.find(begin, at + 1)) {
    const std::string_view rest = spelling.substr(at + begin.size(), literal_limit);
    const std::string_view literal = up_to_quote(rest);
    const bool is_constant = literal.ends_with(R"(<|im_end|>\n)");
    if (!is_constant && !rest.starts_with(of_first) &&
        !spelling.substr(0, at).ends_with(for_tools)) {
      return false;
    }
  }
  return true;
}

// For a message: a few whole characters, on one line.
std::string beginning(std::string_view text) {
  utf8_stream whole;
  std::string shown(whole.push(text.substr(0, 60)));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return shown;
}

// Reasoning templates begin the reply with more than the assistant's header, or cut earlier
// replies.
constexpr std::string_view reasoning_marks[] = {"<think>", "enable_thinking", "reasoning_content"};

result<template_facts> read_chatml(std::string_view text, std::string_view spelling) {
  const auto trims = writes_messages(spelling, chatml_message);
  if (!trims || !contains(spelling, R"(<|im_start|>assistant\n')")) {
    return refuse("the chat template uses ChatML's tokens but writes messages in another way");
  }
  for (const std::string_view mark : reasoning_marks) {
    if (contains(text, mark)) {
      return refuse("the chat template is ChatML for a reasoning model ('" + std::string(mark) +
                    "')");
    }
  }
  if (!understands_system(spelling)) {
    return refuse("the chat template is ChatML with a system message that is not known");
  }
  template_facts facts;
  facts.family = chat_family::chatml;
  facts.trims_content = facts.trims_reply = *trims;
  const auto turn = [](const char* role) {
    return turn_markup{std::string("<|im_start|>") + role + "\n", "<|im_end|>\n"};
  };
  facts.system = turn("system");
  facts.user = turn("user");
  facts.assistant = turn("assistant");
  facts.reply = facts.assistant.before;
  facts.default_system = constant_after(spelling, R"('<|im_start|>system\n)", "<|im_end|>");
  return facts;
}

result<template_facts> read_llama3(std::string_view spelling) {
  const auto trims = writes_messages(spelling, llama3_message);
  if (!trims || !contains(spelling, R"('<|start_header_id|>assistant<|end_header_id|>\n\n')")) {
    return refuse("the chat template uses Llama 3's tokens but writes messages in another way");
  }
  template_facts facts;
  facts.family = chat_family::llama3;
  facts.trims_content = facts.trims_reply = *trims;
  const auto turn = [](const char* role) {
    return turn_markup{std::string("<|start_header_id|>") + role + "<|end_header_id|>\n\n",
                       "<|eot_id|>"};
  };
  facts.system = turn("system");
  facts.user = turn("user");
  facts.assistant = turn("assistant");
  facts.reply = facts.assistant.before;
  if (!contains(spelling, "<|start_header_id|>system<|end_header_id|>")) {
    return facts;
  }
  facts.has_dated_preamble = true;
  facts.knowledge_date = constant_after(spelling, "'Cutting Knowledge Date: ", R"(\n)");
  facts.today = constant_after(spelling, "setdate_string='", "");
  if (facts.knowledge_date.empty() || facts.today.empty()) {
    return refuse("the chat template is Llama 3's with a system message that is not known");
  }
  return facts;
}

}  // namespace

std::string_view to_string(chat_family family) {
  switch (family) {
    case chat_family::chatml:
      return "ChatML";
    case chat_family::llama3:
      return "Llama 3";
    case chat_family::llama2:
      return "Llama 2";
    case chat_family::mistral:
      return "Mistral";
    case chat_family::gemma:
      return "Gemma";
    case chat_family::phi3:
      return "Phi 3";
  }
  return "unknown";
}

result<template_facts> read_template(std::string_view text) {
  if (text.empty()) {
    return refuse("the file has no chat template");
  }
  const std::string spelling = spelling_of_template(text);
  const bool bos = contains(text, "bos_token") || contains(text, "<|begin_of_text|>");
  const auto with_bos = [bos](template_facts facts) {
    facts.begins_with_bos = bos;
    return facts;
  };
  if (contains(text, "<|im_start|>")) {
    return read_chatml(text, spelling).map(with_bos);
  }
  if (contains(text, "<|start_header_id|>")) {
    return read_llama3(spelling).map(with_bos);
  }
  if (auto facts = read_turn_template(text)) {
    return *std::move(facts);
  }
  return refuse("the chat template is of no known family; it begins with '" + beginning(text) +
                "'");
}

}  // namespace terrane::engine
