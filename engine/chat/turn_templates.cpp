#include "engine/chat/turn_templates.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "engine/chat/template_parts.hpp"

namespace terrane::engine {
namespace {

using texts = std::vector<std::string_view>;

// One way in which templates of a family are written.
struct known_form {
  texts writes;            // expressions, all of which it has
  texts may;               // and which it may have
  texts decides;           // statements that it has
  bool has_tools = false;  // what it writes for tools is let be: none are ever passed
  template_facts facts;
};

template_facts facts_of(chat_family family, turn_markup user, turn_markup assistant) {
  template_facts facts;
  facts.family = family;
  facts.user = std::move(user);
  facts.assistant = std::move(assistant);
  return facts;
}

constexpr std::string_view roles_alternate = "if(message['role']=='user')!=(loop.index0%2==0)";

// bos_mark and eos_mark, to be put together with literals.
constexpr const char* bos = "\x02";
constexpr const char* eos = "\x03";

known_form gemma(texts writes, texts may, texts decides) {
  known_form form{std::move(writes), std::move(may), std::move(decides), false, {}};
  form.writes.push_back(R"('<start_of_turn>model\n')");
  form.decides.insert(form.decides.end(),
                      {roles_alternate, "setrole='model'", "ifadd_generation_prompt"});
  form.facts = facts_of(chat_family::gemma, {"<start_of_turn>user\n", "<end_of_turn>\n"},
                        {"<start_of_turn>model\n", "<end_of_turn>\n"});
  form.facts.trims_content = form.facts.trims_reply = true;
  form.facts.alternates = true;
  form.facts.reply = "<start_of_turn>model\n";
  return form;
}

known_form gemma_1_and_2() {
  known_form form =
      gemma({R"('<start_of_turn>'+role+'\n'+message['content']|trim+'<end_of_turn>\n')"}, {},
            {"ifmessages[0]['role']=='system'"});
  form.facts.place = system_place::nowhere;
  return form;
}

known_form gemma_3() {
  known_form form = gemma({R"('<start_of_turn>'+role+'\n'+(first_user_prefixifloop.firstelse''))",
                           "message['content']|trim", R"('<end_of_turn>\n')"},
                          {"'<start_of_image>'", "item['text']|trim"},
                          {R"(setfirst_user_prefix=messages[0]['content']+'\n\n')"});
  form.facts.place = system_place::first_user;
  form.facts.system = {"", "\n\n"};
  return form;
}

known_form llama_2(std::string_view user_turn, const char* before_user) {
  known_form form;
  form.writes = {user_turn, "' '+content.strip()+' '+eos_token"};
  form.may = {R"('<<SYS>>\n'+content.strip()+'\n<</SYS>>\n\n')"};
  form.decides = {roles_alternate,
                  R"(setcontent='<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message['content'])"};
  form.facts = facts_of(chat_family::llama2, {std::string(before_user) + "[INST] ", " [/INST]"},
                        {" ", std::string(" ") + eos});
  form.facts.trims_content = form.facts.trims_reply = form.facts.trims_with_system = true;
  form.facts.alternates = true;
  form.facts.place = system_place::first_user;
  form.facts.system = {"<<SYS>>\n", "\n<</SYS>>\n\n"};
  return form;
}

known_form mistral(texts writes, texts decides, turn_markup user, turn_markup assistant) {
  known_form form{std::move(writes), {}, std::move(decides), false, {}};
  form.facts = facts_of(chat_family::mistral, std::move(user), std::move(assistant));
  form.facts.alternates = true;
  form.facts.system = {"", "\n\n"};
  return form;
}

known_form mistral_without_system(std::string_view reply, std::string after_reply) {
  known_form form = mistral({"'[INST] '+message['content']+' [/INST]'", reply}, {roles_alternate},
                            {"[INST] ", " [/INST]"}, {"", std::move(after_reply)});
  form.facts.place = system_place::nowhere;
  return form;
}

known_form mistral_v1() {
  known_form form =
      mistral({R"(' [INST] '+system_message+'\n\n'+message['content']+' [/INST]')",
               "' [INST] '+message['content']+' [/INST]'", "' '+message['content']+eos_token"},
              {roles_alternate, "ifloop.firstandsystem_messageisdefined"}, {" [INST] ", " [/INST]"},
              {" ", eos});
  form.facts.place = system_place::first_user;
  return form;
}

known_form mistral_v3() {
  known_form form =
      mistral({R"('[INST] '+system_message+'\n\n'+message['content']+'[/INST]')",
               "'[INST] '+message['content']+'[/INST]'", "' '+message['content']|trim+eos_token"},
              {"ifloop.lastandsystem_messageisdefined"}, {"[INST] ", "[/INST]"}, {" ", eos});
  form.has_tools = true;
  form.facts.place = system_place::last_user;
  form.facts.trims_reply = true;
  return form;
}

known_form mistral_v3_tekken() {
  known_form form =
      mistral({R"('[INST]'+system_message+'\n\n'+message['content']+'[/INST]')",
               "'[INST]'+message['content']+'[/INST]'", "message['content']+eos_token"},
              {"ifloop.lastandsystem_messageisdefined"}, {"[INST]", "[/INST]"}, {"", eos});
  form.has_tools = true;
  form.facts.place = system_place::last_user;
  return form;
}

known_form mistral_v7() {
  known_form form = mistral({"'[INST] '+message['content']+'[/INST]'",
                             "'[SYSTEM_PROMPT] '+message['content']+'[/SYSTEM_PROMPT]'",
                             "' '+message['content']+eos_token"},
                            {}, {"[INST] ", "[/INST]"}, {" ", eos});
  form.facts.alternates = false;
  form.facts.system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"};
  return form;
}

// Phi-3 as first published: the reply's header belongs to the user's message.
known_form phi_3_without_system() {
  known_form form;
  form.writes = {R"('<|user|>'+'\n'+message['content']+'<|end|>'+'\n'+'<|assistant|>'+'\n')",
                 R"(message['content']+'<|end|>'+'\n')"};
  form.facts =
      facts_of(chat_family::phi3, {"<|user|>\n", "<|end|>\n<|assistant|>\n"}, {"", "<|end|>\n"});
  form.facts.place = system_place::nowhere;
  return form;
}

known_form phi_3(texts writes) {
  known_form form;
  form.writes = std::move(writes);
  form.writes.push_back(R"('<|assistant|>\n')");
  form.may = {"eos_token"};  // where no reply is asked for
  form.decides = {"ifadd_generation_prompt"};
  form.facts =
      facts_of(chat_family::phi3, {"<|user|>\n", "<|end|>\n"}, {"<|assistant|>\n", "<|end|>\n"});
  form.facts.system = {"<|system|>\n", "<|end|>\n"};
  form.facts.reply = "<|assistant|>\n";
  return form;
}

known_form phi_3_by_role() {
  return phi_3({R"('<|'+message['role']+'|>'+'\n'+message['content']+'<|end|>\n')"});
}

known_form phi_3_5() {
  known_form form = phi_3({R"('<|system|>\n'+message['content']+'<|end|>\n')",
                           R"('<|user|>\n'+message['content']+'<|end|>\n')",
                           R"('<|assistant|>\n'+message['content']+'<|end|>\n')"});
  form.decides.push_back("ifmessage['role']=='system'andmessage['content']");
  form.facts.skips_empty_system = true;
  return form;
}

const std::vector<known_form>& known_forms() {
  static const std::vector<known_form> forms = {
      gemma_1_and_2(),
      gemma_3(),
      llama_2("bos_token+'[INST] '+content.strip()+' [/INST]'", bos),
      llama_2("'[INST] '+content.strip()+' [/INST]'", ""),
      mistral_without_system("message['content']+eos_token", eos),
      mistral_without_system("message['content']+eos_token+' '", std::string(eos) + " "),
      mistral_v1(),
      mistral_v3(),
      mistral_v3_tekken(),
      mistral_v7(),
      phi_3_without_system(),
      phi_3_by_role(),
      phi_3_5(),
  };
  return forms;
}

bool has(std::span<const std::string> all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool has(const texts& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// What a template with tools writes for them names none of these.
bool may_be_for_tools(std::string_view expression) {
  constexpr std::string_view of_messages[] = {"[INST]",
                                              "[/INST]",
                                              "[SYSTEM_PROMPT]",
                                              "message['content']+",
                                              "message['content']|trim",
                                              "system_message"};
  return std::none_of(std::begin(of_messages), std::end(of_messages), [&](std::string_view mark) {
    return expression.find(mark) != std::string_view::npos;
  });
}

bool writes_only_what_is_known(const template_parts& parts, const known_form& form) {
  return std::all_of(parts.outputs.begin(), parts.outputs.end(), [&](const std::string& one) {
    return one == "bos_token" || one.starts_with("raise_exception(") || has(form.writes, one) ||
           has(form.may, one) || (form.has_tools && may_be_for_tools(one));
  });
}

// A system message of the template's own is known only where it can never be used.
bool has_default_system(const template_parts& parts) {
  for (std::size_t i = 0; i < parts.statements.size(); ++i) {
    if (parts.statements[i].starts_with("setsystem_message='")) {
      const std::size_t first = i < 2 ? 0 : i - 2;
      const bool is_dead =
          std::any_of(parts.statements.begin() + static_cast<std::ptrdiff_t>(first),
                      parts.statements.begin() + static_cast<std::ptrdiff_t>(i),
                      [](const std::string& s) { return s.starts_with("eliffalse==trueand"); });
      if (!is_dead) {
        return true;
      }
    }
  }
  return false;
}

bool is_written_as(const template_parts& parts, const known_form& form) {
  return std::all_of(form.writes.begin(), form.writes.end(),
                     [&](std::string_view one) { return has(parts.outputs, one); }) &&
         std::all_of(form.decides.begin(), form.decides.end(),
                     [&](std::string_view one) { return has(parts.statements, one); }) &&
         writes_only_what_is_known(parts, form);
}

}  // namespace

std::optional<template_facts> read_turn_template(std::string_view text) {
  const template_parts parts = parts_of_template(text);
  if (!parts.text.empty() || has_default_system(parts)) {
    return std::nullopt;
  }
  for (const known_form& form : known_forms()) {
    if (is_written_as(parts, form)) {
      template_facts facts = form.facts;
      facts.begins_with_bos = has(parts.outputs, "bos_token");
      return facts;
    }
  }
  return std::nullopt;
}

}  // namespace terrane::engine
