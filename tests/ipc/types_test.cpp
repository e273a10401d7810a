// The interface text, the structs and the table of methods are three places that say the same:
// these tests fail when they do not.
#include <set>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include "ipc/control/errors.hpp"
#include "ipc/control/interface_text.hpp"
#include "ipc/control/json.hpp"
#include "ipc/control/methods.hpp"
#include "ipc/varlink/interface.hpp"

namespace terrane::ipc {
namespace {

using varlink::interface_description;
using kinds = varlink::type::kinds;

const interface_description& interface() {
  static const auto parsed = varlink::parse_interface(control_interface_text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

const varlink::type& resolved(const varlink::type& type) {
  return type.kind == kinds::named ? interface().types.at(type.name) : type;
}

template <class T>
void expect_same(const varlink::type& type, const std::string& where);

template <class T>
void expect_same_fields(const std::vector<varlink::field>& fields, const std::string& where) {
  std::vector<std::string> in_text;
  for (const auto& field : fields) {
    in_text.push_back(field.name);
  }
  std::vector<std::string> in_struct;
  boost::mp11::mp_for_each<described_members<T>>(
      [&](auto member) { in_struct.emplace_back(member.name); });
  ASSERT_EQ(in_text, in_struct) << where;
  std::size_t index = 0;
  boost::mp11::mp_for_each<described_members<T>>([&](auto member) {
    using field_type = std::remove_reference_t<decltype(std::declval<T&>().*member.pointer)>;
    expect_same<field_type>(fields[index++].type, where + "." + member.name);
  });
}

template <class T>
void expect_same(const varlink::type& given, const std::string& where) {
  const varlink::type& type = resolved(given);
  if constexpr (json_shapes::is_optional<T>::value) {
    ASSERT_EQ(type.kind, kinds::optional) << where;
    expect_same<typename T::value_type>(type.element.front(), where);
  } else if constexpr (json_shapes::is_vector<T>::value) {
    ASSERT_EQ(type.kind, kinds::array) << where;
    expect_same<typename T::value_type>(type.element.front(), where + "[]");
  } else if constexpr (std::is_enum_v<T>) {
    ASSERT_EQ(type.kind, kinds::enumeration) << where;
    std::vector<std::string> names;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>(
        [&](auto one) { names.emplace_back(one.name); });
    EXPECT_EQ(type.names, names) << where;
  } else if constexpr (boost::describe::has_describe_members<T>::value) {
    ASSERT_EQ(type.kind, kinds::structure) << where;
    expect_same_fields<T>(type.fields, where);
  } else if constexpr (std::is_same_v<T, std::string>) {
    EXPECT_EQ(type.kind, kinds::string) << where;
  } else if constexpr (std::is_same_v<T, bool>) {
    EXPECT_EQ(type.kind, kinds::boolean) << where;
  } else if constexpr (std::is_same_v<T, double>) {
    EXPECT_EQ(type.kind, kinds::floating) << where;
  } else {
    EXPECT_EQ(type.kind, kinds::integer) << where;
  }
}

template <class Request, class Reply>
void expect_method(const char* name) {
  SCOPED_TRACE(name);
  const auto& method = interface().methods.at(name);
  expect_same_fields<Request>(method.inputs, "in");
  expect_same_fields<Reply>(method.outputs, "out");
}

TEST(types, structs_agree_with_the_interface) {
  expect_method<nothing, status_reply>("Status");
  expect_method<nothing, devices_reply>("Devices");
  expect_method<nothing, placement_reply>("Placement");
  expect_method<nothing, telemetry_reply>("Telemetry");
  expect_method<nothing, snapshot_reply>("Snapshot");
  expect_method<generate_request, generate_reply>("Generate");
  expect_method<session_request, nothing>("StopGenerate");
  expect_method<nothing, sessions_reply>("Sessions");
  expect_method<session_request, nothing>("CloseSession");
  expect_method<move_request, move_reply>("Move");
  expect_method<cancel_move_request, nothing>("CancelMove");
  expect_method<spill_kv_request, kv_reply>("SpillKv");
  expect_method<fetch_kv_request, kv_reply>("FetchKv");
  expect_method<nothing, tuning_reply>("Tuning");
  expect_method<tune_request, tune_reply>("Tune");
  expect_method<nothing, policy_list_reply>("PolicyList");
  expect_method<policy_lint_request, policy_lint_reply>("PolicyLint");
  expect_method<nothing, policy_reload_reply>("PolicyReload");
  expect_method<policy_switch, policy_switch_reply>("PolicySwitch");
  expect_method<yield_request, yield_reply>("Yield");
  expect_method<end_yield_request, end_yield_reply>("EndYield");
  expect_method<plan_request, plan_reply>("Plan");
  expect_method<explain_request, explain_reply>("Explain");
  expect_method<why_request, why_reply>("Why");
  expect_method<nothing, monitor_reply>("Monitor");
  EXPECT_EQ(interface().methods.size(), 25U) << "a method is not compared above";
}

TEST(types, the_table_of_methods_has_those_of_the_interface) {
  std::set<std::string> in_table;
  for (const method_row& row : control_methods()) {
    in_table.emplace(row.name);
  }
  std::set<std::string> in_text;
  for (const auto& [name, unused] : interface().methods) {
    in_text.insert(name);
  }
  EXPECT_EQ(in_table, in_text);
}

// The comment before a method ends "Level: NAME".
TEST(types, the_levels_in_the_text_are_those_of_the_table) {
  const std::string& text = interface().text;
  for (const method_row& row : control_methods()) {
    const std::string name(row.name);
    const auto method = text.find("\nmethod " + name + "(");
    const auto level = text.rfind("Level: ", method);
    ASSERT_NE(method, std::string::npos) << name;
    ASSERT_EQ(text.substr(level, method - level).find("\nmethod "), std::string::npos) << name;
    const std::string wanted = boost::describe::enum_to_string(row.level, "");
    EXPECT_EQ(text.substr(level + 7, wanted.size()), wanted) << name;
  }
}

TEST(types, errors_have_the_parameters_of_the_interface) {
  std::set<std::string> made;
  for (const refusal& error : {refuse::not_permitted("Move", access_level::operate),
                               refuse::not_your_session(3),
                               refuse::not_ready(daemon_state::starting, "loading"),
                               refuse::not_ready(daemon_state::failed, "the file is truncated"),
                               refuse::shutting_down(),
                               refuse::too_many_connections(64),
                               refuse::too_slow("the reply"),
                               refuse::busy("the session is giving a reply"),
                               refuse::cancelled("the move"),
                               refuse::stale_revision(6, 7),
                               refuse::no_room("cpu", 100, 10),
                               refuse::unknown_part("layer.9.atn", {"layer.9.attn"}),
                               refuse::unknown_device("gpu", {"cpu"}),
                               refuse::device_unusable("cpu", "lost"),
                               refuse::unknown_policy("vram", {"vram-spill"}),
                               refuse::not_freed("gpu", 100, "no room elsewhere"),
                               refuse::yield_over("gpu", 100, "it was ended"),
                               refuse::device_yields({"gpu", "user 1", 5}, "for another 5 s"),
                               refuse::device_yields({"gpu", "user 1", {}}, "until told"),
                               refuse::unknown_session(3),
                               refuse::unknown_move(3),
                               refuse::unknown_decision(3, 0, 0),
                               refuse::context_exceeded(3000, 2048),
                               refuse::quota_exceeded("share", 3, 2, "ann holds 3"),
                               refuse::chat_unsupported("no template"),
                               refuse::not_finite("layer.3.attn"),
                               refuse::policy_invalid({{"a.yaml", 1, 2, {}, "bad"}}, "so"),
                               refuse::failed("the disk is full")}) {
    const auto dot = error.name.rfind('.');
    EXPECT_EQ(error.name.substr(0, dot), interface().name);
    const std::string member = error.name.substr(dot + 1);
    made.insert(member);
    const auto& fields = interface().errors.at(member);
    const auto wrong = varlink::check(interface(), fields, error.parameters);
    EXPECT_FALSE(wrong) << member << ": " << wrong->where << " " << wrong->expected;
  }
  for (const auto& [name, unused] : interface().errors) {
    EXPECT_TRUE(made.contains(name)) << name;
  }
}

TEST(types, a_near_name_is_suggested) {
  const auto message = [](const refusal& error) {
    return std::string(error.parameters.at("message").as_string());
  };
  const std::vector<std::string> known{"layer.0.attn", "layer.0.ffn", "head"};
  EXPECT_NE(message(refuse::unknown_part("layer.0", known)).find("It has layer.0.attn"),
            std::string::npos);
  EXPECT_NE(message(refuse::unknown_part("layer.0.atn", known)).find("Did you mean layer.0.attn?"),
            std::string::npos);
  EXPECT_EQ(message(refuse::unknown_part("zzzzzzzz", known)),
            "the model has no part \"zzzzzzzz\". Parts have names such as layer.0.ffn; terranectl "
            "placement lists them");
  EXPECT_EQ(message(refuse::unknown_part(std::string(100000, 'x'), known)).find("Did you mean"),
            std::string::npos);
}

TEST(types, values_go_to_json_and_back) {
  move_reply reply{5, move_state::committed, 8, 100, 100, 1.5, std::nullopt, {}};
  const auto object = to_json(reply);
  EXPECT_EQ(object.at("state").as_string(), "committed");
  EXPECT_FALSE(object.contains("bytes_in_pause"));
  const auto back = from_json<move_reply>(object);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->pause_ms, 1.5);
  EXPECT_EQ(back->state, move_state::committed);
  EXPECT_FALSE(back->bytes_in_pause);
}

TEST(types, a_client_ignores_unknown_fields_and_misses_known_ones) {
  const auto read = [](const char* text) {
    return from_json<kv_reply>(boost::json::parse(text).as_object());
  };
  EXPECT_TRUE(read(R"({"bytes":1,"revision":2,"later":true})"));
  EXPECT_FALSE(read(R"({"bytes":1})"));
  EXPECT_FALSE(read(R"({"bytes":"1","revision":2})"));
  EXPECT_FALSE(from_json<chat_message>(
      boost::json::parse("{\"role\":\"user\\u0000x\",\"content\":\"\"}").as_object()));
}

}  // namespace
}  // namespace terrane::ipc
