// What authors read beside their editor, made from the vocabulary's table and from nothing else:
// the JSON Schema of the YAML form, the reference page, and stubs of the Lua names for language
// servers. The files are committed beside this header; tests/policies/reference_test.cpp fails when
// one is no longer what is made, and `terranectl policy reference --into policies` makes them all
// again. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terrane::policies::reference {

// JSON Schema, draft 2020-12, of a YAML policy file. What depends on several keys at once, such as
// a crossed band, is left to lint.
std::string policy_schema();
// The same of a test of policies, NAME.test.yaml.
std::string test_schema();
// Markdown: every key, metric, word and Lua name with its row.
std::string page();
// A `---@meta` file for lua-language-server.
std::string lua_stubs();
// A `.luarc.json` that has lua-language-server read the stubs at that path, and forget what
// policies do not have of Lua's library.
std::string lua_settings(std::string_view stubs);

// A file that is made, and its place in the folder policies/.
struct made_file {
  std::string_view path;
  std::string (*make)();
};
std::span<const made_file> made_files();

}  // namespace terrane::policies::reference
