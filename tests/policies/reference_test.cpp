// What is made from the vocabulary is what is committed, and is whole.
#include "policies/reference/reference.hpp"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lauxlib.h>
#include <lua.h>

#include "policies/reference/json_tree.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/lua_words.hpp"

namespace terrane::policies::reference {
namespace {

using testing::HasSubstr;

class made : public testing::TestWithParam<made_file> {};

TEST_P(made, is_what_is_committed) {
  const std::string path = TERRANE_TEST_DATA "/../policies/" + std::string(GetParam().path);
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == GetParam().make())
      << path
      << " is not what the vocabulary makes; run: terranectl policy reference --into policies";
}

INSTANTIATE_TEST_SUITE_P(all, made, testing::ValuesIn(made_files().begin(), made_files().end()),
                         [](const auto& one) {
                           std::string name(one.param.path);
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(page, has_every_word) {
  const std::string text = page();
  for (const key_entry& k : policy_keys()) EXPECT_THAT(text, HasSubstr(std::string(k.says)));
  for (const metric_entry& m : metrics()) EXPECT_THAT(text, HasSubstr(std::string(m.says)));
  for (const word<lua_object>& o : lua_objects()) {
    for (const lua_member& m : lua_members(o.value)) EXPECT_THAT(text, HasSubstr(m.says));
  }
}

TEST(stubs, are_lua) {
  lua_State* const L = luaL_newstate();
  const std::string text = lua_stubs();
  EXPECT_EQ(luaL_loadbuffer(L, text.data(), text.size(), "stubs"), LUA_OK) << lua_tostring(L, -1);
  lua_close(L);
  for (const lua_member& m : lua_members(lua_object::recorder)) {
    EXPECT_THAT(text, HasSubstr("function recorder_class:" + m.name + "("));
  }
  EXPECT_THAT(text, HasSubstr("---@field for_each scope_name"));
  EXPECT_THAT(text, HasSubstr("---@field [\"throttle.heat\"] boolean?"));
}

TEST(json_tree, writes_for_people) {
  json_tree tree = json_tree::object({{"a", 1}, {"b", json_tree::array({"x\"y", true})}});
  EXPECT_EQ(tree.written(), "{\"a\": 1, \"b\": [\"x\\\"y\", true]}\n");
  tree.add("c", std::string(100, 'z'));
  EXPECT_EQ(tree.written(), "{\n  \"a\": 1,\n  \"b\": [\"x\\\"y\", true],\n  \"c\": \"" +
                                std::string(100, 'z') + "\"\n}\n");
}

}  // namespace
}  // namespace terrane::policies::reference
