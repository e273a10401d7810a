// The families that are recognised by what they write, against what Jinja makes of the published
// templates (tests/golden/make_renderings.py). No vocabulary is needed: control tokens are compared
// by their text.
#include "engine/chat/turn_templates.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/chat/chat_format.hpp"
#include "tests/engine/chat/golden_chat.hpp"
#include "tests/engine/tokenizer/small_vocabulary.hpp"

namespace terrane::engine {
namespace {

using testing::HasSubstr;

// What the published templates write and decide, without what they do for tools and pictures.
#define ALTERNATES                                                 \
  "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" \
  "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
#define FIRST_IS_SYSTEM                                                            \
  "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}" \
  "{% set system_message = messages[0]['content'] %}{% else %}"                    \
  "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
#define BY_ROLE(USER, ASSISTANT)               \
  "{% if message['role'] == 'user' %}{{ " USER \
  " }}"                                        \
  "{% elif message['role'] == 'assistant' %}{{ " ASSISTANT " }}{% endif %}"
#define LLAMA2_BODY(USER)                                                       \
  "{% for message in loop_messages %}" ALTERNATES                               \
  "{% if loop.index0 == 0 and system_message != false %}{% set content = "      \
  "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}" \
  "{% else %}{% set content = message['content'] %}{% endif %}" BY_ROLE(        \
      USER, "' '  + content.strip() + ' ' + eos_token") "{% endfor %}"
#define LATE_SYSTEM(OPEN, ASSISTANT)                                           \
  FIRST_IS_SYSTEM                                                              \
  "{{- bos_token }}{%- for message in loop_messages %}"                        \
  "{%- if message[\"role\"] == \"user\" %}"                                    \
  "{%- if loop.last and system_message is defined %}\n        {{- \"" OPEN     \
  "\" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}\n" \
  "{%- else %}{{- \"" OPEN                                                     \
  "\" + message[\"content\"] + \"[/INST]\" }}{%- endif %}"                     \
  "{%- elif message[\"role\"] == \"assistant\" %}{{- " ASSISTANT " }}{%- endif %}{%- endfor %}"

const std::map<std::string, std::string> condensed = {
    {"llama-2",
     FIRST_IS_SYSTEM LLAMA2_BODY("bos_token + '[INST] ' + content.strip() + ' [/INST]'")},
    {"mistral-v0.2", "{{ bos_token }}{% for message in messages %}" ALTERNATES BY_ROLE(
                         "'[INST] ' + message['content'] + ' [/INST]'",
                         "message['content'] + eos_token") "{% endfor %}"},
    {"mistral-v1", FIRST_IS_SYSTEM
     "{{- bos_token }}\n{%- for message in loop_messages %}\n" ALTERNATES
     "{%- if message['role'] == 'user' %}\n{%- if loop.first and system_message is defined %}\n"
     "{{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n"
     "{%- else %}{{- ' [INST] ' + message['content'] + ' [/INST]' }}{%- endif %}"
     "{%- else %}{{- ' ' + message['content'] + eos_token}}{%- endif %}{%- endfor %}\n"},
    {"mistral-v3", LATE_SYSTEM("[INST] ", "\" \" + message[\"content\"]|trim + eos_token")},
    {"mistral-nemo", LATE_SYSTEM("[INST]", "message[\"content\"] + eos_token")},
    {"mistral-v7",
     "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
     "{{ '[INST] ' + message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}"
     "{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}{% else %}"
     "{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"},
    {"gemma-2",
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system') }}"
     "{% endif %}{% for message in messages %}" ALTERNATES
     "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
     "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + "
     "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"},
    {"gemma-3",
     "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n"
     "{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{%- endif -%}\n"
     "{%- for message in loop_messages -%}" ALTERNATES
     "{%- if (message['role'] == 'assistant') -%}{%- set role = \"model\" -%}{%- endif -%}\n    "
     "{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n    "
     "{%- if message['content'] is string -%}{{ message['content'] | trim }}{%- endif -%}"
     "{{ '<end_of_turn>\n' }}{%- endfor -%}{%- if add_generation_prompt -%}\n    "
     "{{'<start_of_turn>model\n'}}\n{%- endif -%}\n"},
    {"phi-3-mini",
     "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') %}"
     "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"
     "{% else %}{{message['content'] + '<|end|>' + '\n'}}{% endif %}{% endfor %}"},
    {"phi-3-small",
     "{{ bos_token }}{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + "
     "message['content'] + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"},
    {"phi-3.5",
     "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
     "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}" BY_ROLE(
         "'<|user|>\n' + message['content'] + '<|end|>\n'",
         "'<|assistant|>\n' + message['content'] + '<|end|>\n'") "{% endif %}{% endfor %}"
                                                                 "{% if add_generation_prompt %}{{ "
                                                                 "'<|assistant|>\n' }}{% else %}{{ "
                                                                 "eos_token }}{% endif %}"},
};

tokenizer with_template(const std::string& text, bool with_brackets = true) {
  vocabulary words = test::small_vocabulary();
  const auto add = [&](const char* token) {
    words.tokens.emplace_back(token);
    words.types.push_back(static_cast<int>(token_type::control));
    return static_cast<token_id>(words.tokens.size() - 1);
  };
  words.bos = add("<bos>");
  words.eos = add("<eos>");
  for (const char* token :
       {"<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"}) {
    add(token);
  }
  if (with_brackets) {
    for (const char* token : {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}) {
      add(token);
    }
  }
  words.chat_template = text;
  return tokenizer::make(std::move(words)).value();
}

std::string text_of(const tokenizer& words, const std::vector<chat_piece>& pieces) {
  std::string out;
  for (const chat_piece& piece : pieces) {
    const token_id* id = std::get_if<token_id>(&piece);
    out += id != nullptr ? std::string(words.text(*id)) : std::get<std::string>(piece);
  }
  return out;
}

struct rendering {
  std::string name;
  std::vector<std::optional<std::string>> texts;  // nothing: the template raises
};

std::vector<rendering> renderings() {
  std::vector<rendering> all;
  for (const std::string& line : golden::lines_of("chat_renderings.txt")) {
    if (line.starts_with("template ")) {
      all.push_back({line.substr(9), {}});
    } else if (line == "raises") {
      all.back().texts.push_back(std::nullopt);
    } else {
      all.back().texts.push_back(golden::unescape(line.substr(5)));
    }
  }
  return all;
}

TEST(turn_templates, chats_are_written_as_the_published_templates_write_them) {
  const auto chats =
      golden::chat_cases_at(std::string(TERRANE_TEST_DATA) + "/golden/smollm2_chat.txt");
  const auto all = renderings();
  ASSERT_EQ(all.size(), condensed.size());
  for (const rendering& one : all) {
    ASSERT_EQ(one.texts.size(), chats.size());
    const tokenizer words = with_template(condensed.at(one.name));
    const auto format = chat_format::recognise(words);
    ASSERT_TRUE(format) << one.name << ": " << to_string(format.error());
    int compared = 0;
    for (std::size_t i = 0; i < chats.size(); ++i) {
      const auto pieces = format->pieces(chats[i].messages);
      if (!pieces || !one.texts[i]) {
        EXPECT_FALSE(pieces) << one.name << ' ' << i;
        continue;
      }
      EXPECT_EQ(text_of(words, *pieces), *one.texts[i]) << one.name << ' ' << i;
      ++compared;
    }
    EXPECT_GE(compared, 5) << one.name;
  }
}

TEST(turn_templates, control_tokens_come_from_the_markup_only) {
  for (const auto& [name, text] : condensed) {
    const tokenizer words = with_template(text);
    const auto format = chat_format::recognise(words).value();
    const auto count = [&](const std::string& content) {
      const auto pieces =
          format.pieces(std::vector{chat_message{chat_role::user, content}}).value();
      return std::count_if(pieces.begin(), pieces.end(),
                           [](const chat_piece& p) { return std::holds_alternative<token_id>(p); });
    };
    EXPECT_EQ(count("[/INST]<|end|><end_of_turn><eos>[INST]<bos>"), count("x")) << name;
    EXPECT_GT(count("x"), 0) << name;
  }
}

TEST(turn_templates, brackets_are_text_where_the_vocabulary_has_no_such_token) {
  const tokenizer words = with_template(condensed.at("mistral-v0.2"), false);
  const auto pieces = chat_format::recognise(words)
                          .value()
                          .pieces(std::vector{chat_message{chat_role::user, "Hi"}})
                          .value();
  EXPECT_EQ(pieces, (std::vector<chat_piece>{*words.words().bos, "[INST] Hi [/INST]"}));
  const auto refused = chat_format::recognise(with_template(condensed.at("mistral-v7"), false));
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("[SYSTEM_PROMPT], which is not in the"));
}

TEST(turn_templates, refuses_an_order_of_roles_that_the_template_does_not_have) {
  const chat_message system{chat_role::system, "s"}, user{chat_role::user, "u"},
      assistant{chat_role::assistant, "a"};
  const auto refusal = [](const char* name, const std::vector<chat_message>& chat) {
    const auto format = chat_format::recognise(with_template(condensed.at(name))).value();
    const auto pieces = format.pieces(chat);
    return pieces ? "" : to_string(pieces.error());
  };
  EXPECT_THAT(refusal("gemma-2", {system, user}), HasSubstr("no place for a system message"));
  EXPECT_EQ(refusal("gemma-3", {system, user}), "");
  EXPECT_THAT(refusal("gemma-3", {system}), HasSubstr("first user message"));
  EXPECT_THAT(
      refusal("gemma-3", {user, user}),
      HasSubstr("message 2 is from 'user', but the model's chat template wants 'assistant'"));
  EXPECT_THAT(refusal("llama-2", {user, system}), HasSubstr("at the beginning only"));
  EXPECT_THAT(refusal("mistral-nemo", {system, user, assistant}), HasSubstr("last user message"));
  EXPECT_EQ(refusal("mistral-v7", {user, system, user}), "");
}

TEST(turn_templates, the_next_turn_continues_what_went_before) {
  const chat_message hello{chat_role::user, "Hello"}, reply{chat_role::assistant, "Hi there."},
      next{chat_role::user, "And now?"};
  for (const auto& [name, text] : condensed) {
    const tokenizer words = with_template(text);
    const auto format = chat_format::recognise(words).value();
    const auto facts = read_turn_template(text).value();
    auto ids = format.encode(words, std::vector{hello}).value();
    // The assistant's own header or space is part of what is generated, or of the prompt.
    const std::string said =
        facts.reply.empty() ? facts.assistant.before + reply.content : reply.content;
    const auto reply_ids = words.encode(said, special_text::as_text).value();
    const auto more = format.encode_next(words, std::vector{next}).value();
    ids.insert(ids.end(), reply_ids.begin(), reply_ids.end());
    ids.insert(ids.end(), more.begin(), more.end());
    EXPECT_EQ(words.decode(ids),
              words.decode(format.encode(words, std::vector{hello, reply, next}).value()))
        << name;
  }
}

TEST(turn_templates, refuses_templates_that_write_anything_else) {
  const auto is_known = [](std::string text) { return read_turn_template(text).has_value(); };
  const std::string gemma = condensed.at("gemma-2"), mistral = condensed.at("mistral-v7");
  EXPECT_TRUE(is_known(gemma));
  EXPECT_FALSE(is_known(gemma + "{{ '<start_of_turn>thought\n' }}"));
  EXPECT_FALSE(is_known(gemma + "Answer:"));
  EXPECT_FALSE(is_known("You are a cat." + mistral));
  EXPECT_FALSE(is_known(mistral + "{{ '[TOOLS]' }}"));
  EXPECT_FALSE(is_known(gemma.substr(0, gemma.find("{% if add_generation_prompt"))));
  // A line end after an output stands in the prompt; after a statement it does not.
  EXPECT_TRUE(is_known("{% set x = 1 %}\n" + mistral + "{# end #}\n"));
  EXPECT_FALSE(is_known("{{ bos_token }}\n" + mistral.substr(15)));
  // A system message of the template's own, unless it can never be used.
  const auto llama2 = [](const std::string& condition) {
    return "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] "
           "%}{% elif " +
           condition +
           " %}{% set loop_messages = messages %}{% set system_message = 'Be kind.' %}{% endif "
           "%}" LLAMA2_BODY("bos_token + '[INST] ' + content.strip() + ' [/INST]'");
  };
  EXPECT_TRUE(is_known(llama2("false == true and not '<<SYS>>' in messages[0]['content']")));
  EXPECT_FALSE(is_known(llama2("true == true and not '<<SYS>>' in messages[0]['content']")));
}

TEST(turn_templates, survives_hostile_templates) {
  for (const char* unit :
       {"{{", "{%", "{#", "{{'", "}}", "{{'[INST]", "{{ x }}", "{{-", "\\", "\n "}) {
    std::string text;
    for (int i = 0; i < 50'000; ++i) {
      text += unit;
    }
    EXPECT_FALSE(read_turn_template(text)) << unit;
  }
  for (const char* text : {"", "{", "{{", "{%-", "{{-}}", "{{--}}", "{{'\\", "{#"}) {
    EXPECT_FALSE(read_turn_template(text)) << text;
  }
}

}  // namespace
}  // namespace terrane::engine
