#include "ipc/varlink/message.hpp"

#include <gtest/gtest.h>

namespace terrane::ipc::varlink {
namespace {

TEST(message, a_call_has_a_method_and_may_have_the_rest) {
  const auto plain = parse_call(R"({"method":"a.b.C"})", 32);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->method, "a.b.C");
  EXPECT_TRUE(plain->parameters.empty());
  EXPECT_FALSE(plain->more || plain->oneway || plain->upgrade);

  const auto full = parse_call(
      R"({"method":"a.b.C","parameters":{"x":1},"more":true,"oneway":null,"later":[]})", 32);
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->more);
  EXPECT_EQ(full->parameters.at("x").as_int64(), 1);
}

TEST(message, what_is_not_a_call_is_refused_with_a_reason) {
  for (const char* text :
       {"", " ", "{", "[]", "1", "nul", "{}", R"({"method":1})", R"({"method":"a","more":1})",
        R"({"method":"a","parameters":[]})", R"({"method":"a"} {"method":"b"})",
        R"({"method":"a","more":true,"oneway":true})", "{\"method\":\"\xff\"}",
        "{\"method\":\"a\x01\"}", R"({"method":"a",})"}) {
    const auto parsed = parse_call(text, 32);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, error_code::invalid_text);
    EXPECT_FALSE(parsed.error().message.empty());
  }
}

TEST(message, nesting_is_bounded) {
  const auto nested = [](int deep) {
    return R"({"method":"a","parameters":{"x":)" + std::string(deep, '[') + std::string(deep, ']') +
           "}}";
  };
  EXPECT_TRUE(parse_call(nested(30), 32));
  EXPECT_FALSE(parse_call(nested(31), 32));
  EXPECT_FALSE(parse_call(nested(400000), 32));
}

TEST(message, written_messages_are_read_back) {
  call what;
  what.method = "a.b.C";
  what.parameters = {{"text", "one\ntwo"}};
  what.more = true;
  std::string text = write_call(what);
  ASSERT_EQ(text.back(), '\0');
  text.pop_back();
  EXPECT_EQ(text.find('\0'), std::string::npos);
  const auto read = parse_call(text, 32);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->parameters, what.parameters);
  EXPECT_TRUE(read->more);

  text = write_error({"a.b.Bad", {{"n", 1}}});
  text.pop_back();
  const auto error = parse_response(text, 32);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error, "a.b.Bad");

  text = write_reply({{"n", 1}}, true);
  text.pop_back();
  const auto reply = parse_response(text, 32);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->continues);
  EXPECT_FALSE(reply->error);
}

TEST(message, what_is_written_is_utf8_whatever_its_texts_are) {
  const std::string odd = "caf\xE9 caf\xC3\xA9 \xE2\x82 \xED\xA0\x80 \xF0\x9F\x98\x80 \xC0\xAF";
  const std::string text = write_reply({{"text", odd}}, false);
  const auto read = parse_response(std::string_view(text).substr(0, text.size() - 1), 32);
  ASSERT_TRUE(read.has_value());
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(read->parameters.at("text").as_string(),
            "caf" + r + " caf\xC3\xA9 " + r + r + " " + r + r + r + " \xF0\x9F\x98\x80 " + r + r);
}

TEST(message, a_member_name_is_cut_at_its_last_dot) {
  EXPECT_EQ(split_member("a.b.C").interface, "a.b");
  EXPECT_EQ(split_member("a.b.C").member, "C");
  EXPECT_EQ(split_member("C").interface, "");
  EXPECT_EQ(split_member("a.").member, "");
}

}  // namespace
}  // namespace terrane::ipc::varlink
