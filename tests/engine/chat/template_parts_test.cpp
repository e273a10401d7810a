#include "engine/chat/template_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terrane::engine {
namespace {

using testing::ElementsAre;

TEST(template_parts, are_what_a_template_writes_and_decides) {
  const auto parts = parts_of_template(
      "{# a {{ comment }} #}{%- if x == \"y\" %}{{ message.role + '\n' }}{% endif -%}");
  EXPECT_THAT(parts.outputs, ElementsAre(R"(message['role']+'\n')"));
  EXPECT_THAT(parts.statements, ElementsAre("ifx=='y'", "endif"));
  EXPECT_EQ(parts.text, "");
}

TEST(template_parts, quotes_hide_the_end_of_a_tag) {
  EXPECT_THAT(parts_of_template("{{ '}}' }}{{ \"it's\" }}").outputs,
              ElementsAre("'}}'", R"('it\'s')"));
}

// The settings of Hugging Face's apply_chat_template, tried with Jinja 3.1.6.
TEST(template_parts, white_space_outside_of_tags_is_kept_as_jinja_keeps_it) {
  const auto text = [](const char* of) { return parts_of_template(of).text; };
  EXPECT_EQ(text("{% if x %}\n{% endif %}"), "");
  EXPECT_EQ(text("{% if x %}\n\n{% endif %}"), "\n");
  EXPECT_EQ(text("{% if x %}\n    {% endif %}"), "");
  EXPECT_EQ(text("{% if x %}    {% endif %}"), "    ");
  EXPECT_EQ(text("{{ x }}\n{% endif %}"), "\n");
  EXPECT_EQ(text("{{ x }}\n  {% endif %}"), "\n");
  EXPECT_EQ(text("{{ x }}  {% endif %}"), "  ");
  EXPECT_EQ(text("{{ x -}}\n  {{ y }}"), "");
  EXPECT_EQ(text("{{ x }}\n  {{- y }}"), "");
  EXPECT_EQ(text("  {% if x %}"), "");
  EXPECT_EQ(text("  {{ x }}"), "  ");
  EXPECT_EQ(text("{{ x }}\n"), "");
  EXPECT_EQ(text("{{ x }}\n\n"), "\n");
  EXPECT_EQ(text("a { b {% c %} d"), "a { b  d");
}

}  // namespace
}  // namespace terrane::engine
