// Feeds arbitrary sources to the Lua sandbox: the input as it is, or, when it begins with the byte
// 1, a word of the language for each byte, which makes sources that compile far more often.
// Whatever comes in, it must end by itself, within its limits, and print and fault the same when
// run again. Faults of the sandbox show as a crash, as a report of a sanitizer, or as one of the
// traps below.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include <lua.hpp>

#include "policies/lua/sandbox.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace {

using namespace terrane::policies::lua;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "lua_fuzz: %s\n", what);
  std::abort();
}

const char list_key = 0;

// A read-only list and a function of the host, for scripts to attack.
void bind(lua_State* L) {
  lua_createtable(L, 1, 1);
  lua_pushinteger(L, 7);
  lua_rawseti(L, -2, 1);
  lua_pushstring(L, "kept");
  lua_setfield(L, -2, "name");
  make_readonly(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &list_key);
  lua_setglobal(L, "list");
  push_function(L, [](lua_State* state) {
    const std::string_view text = check_text(state, 1);
    lua_pushlstring(state, text.data(), text.size());
    return 1;
  });
  lua_setglobal(L, "host");
}

bool list_is_unchanged(lua_State* L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &list_key);
  push_plain(L, -1);
  const bool same = lua_rawgeti(L, -1, 1) == LUA_TNUMBER && lua_tointeger(L, -1) == 7 &&
                    lua_getfield(L, -2, "name") == LUA_TSTRING && check_text(L, -1) == "kept" &&
                    border(L, -3) == 1;
  return same;
}

struct ending {
  std::string printed;
  std::string error;
  bool by_deadline = false;
};

// Sanitizers slow all down; the deadline only guards against what the budget does not count.
ending run(const script& chunk) {
  sandbox_limits limits;
  limits.instructions = 50'000;
  limits.deadline = std::chrono::milliseconds(400);
  sandbox box(limits);
  require(box.enter(bind).has_value(), "the binding failed");
  const auto begin = thread_time();
  const auto done = box.run(chunk);
  require(thread_time() - begin < std::chrono::milliseconds(1500), "too long after the deadline");
  require(box.peak_memory_bytes() <= limits.memory_bytes, "more memory than allowed");
  if (done) {
    require(box.enter([](lua_State* L) { require(list_is_unchanged(L), "the list was changed"); })
                .has_value(),
            "the list cannot be read any more");
  }
  ending end{box.printed(), done ? "" : to_string(done.error()), false};
  end.by_deadline = !done && done.error().fault == script_fault::deadline;
  require(done || done.error().fault != script_fault::internal, end.error.c_str());
  return end;
}

constexpr std::string_view words[] = {"and",
                                      "break",
                                      "do",
                                      "else",
                                      "elseif",
                                      "end",
                                      "false",
                                      "for",
                                      "function",
                                      "goto",
                                      "if",
                                      "in",
                                      "local",
                                      "nil",
                                      "not",
                                      "or",
                                      "repeat",
                                      "return",
                                      "then",
                                      "true",
                                      "until",
                                      "while",
                                      "+",
                                      "-",
                                      "*",
                                      "/",
                                      "%",
                                      "^",
                                      "#",
                                      "&",
                                      "~",
                                      "|",
                                      "<<",
                                      ">>",
                                      "//",
                                      "==",
                                      "~=",
                                      "<=",
                                      ">=",
                                      "<",
                                      ">",
                                      "=",
                                      "(",
                                      ")",
                                      "{",
                                      "}",
                                      "[",
                                      "]",
                                      "::",
                                      ";",
                                      ":",
                                      ",",
                                      ".",
                                      "..",
                                      "...",
                                      "a",
                                      "b",
                                      "t",
                                      "f",
                                      "s",
                                      "'x'",
                                      "''",
                                      "[[y]]",
                                      "0",
                                      "1",
                                      "2",
                                      "-1",
                                      "0.5",
                                      "1e308",
                                      "(0/0)",
                                      "(1 << 62)",
                                      "300",
                                      "\n",
                                      "a = a",
                                      "local a, b =",
                                      "function(a, ...)",
                                      "return a",
                                      "t[a]",
                                      "t.x",
                                      "for a = 1, 9 do",
                                      "for a, b in pairs(t) do",
                                      "if a then",
                                      "while a do",
                                      "pcall(function()",
                                      "end)",
                                      "f(a)",
                                      "a .. b",
                                      "a ^ b",
                                      "#t",
                                      "#s",
                                      "t[#t + 1] = a",
                                      "setmetatable(t, {",
                                      "})",
                                      "__index =",
                                      "__newindex =",
                                      "__call =",
                                      "__concat =",
                                      "__pow =",
                                      "__tostring =",
                                      "__lt =",
                                      "__eq =",
                                      "__len =",
                                      "__gc =",
                                      "__close =",
                                      "__pairs =",
                                      "__add =",
                                      "__unm =",
                                      "assert(",
                                      "error(",
                                      "getmetatable(",
                                      "ipairs(",
                                      "next(",
                                      "pairs(",
                                      "pcall(",
                                      "print(",
                                      "rawequal(",
                                      "rawget(",
                                      "rawlen(",
                                      "rawset(",
                                      "select(",
                                      "tonumber(",
                                      "tostring(",
                                      "type(",
                                      "xpcall(",
                                      "math.floor(",
                                      "math.max(",
                                      "math.fmod(",
                                      "math.modf(",
                                      "math.log(",
                                      "math.exp(",
                                      "math.tointeger(",
                                      "math.abs(",
                                      "math.mininteger",
                                      "math.maxinteger",
                                      "math.huge",
                                      "string.byte(",
                                      "string.char(",
                                      "string.find(",
                                      "string.format(",
                                      "'%5.2f'",
                                      "'%-9s'",
                                      "'%d'",
                                      "s:sub(",
                                      "s:rep(",
                                      "s:reverse()",
                                      "s:upper()",
                                      "s:lower()",
                                      "table.concat(",
                                      "table.insert(",
                                      "table.move(",
                                      "table.pack(",
                                      "table.remove(",
                                      "table.sort(",
                                      "table.unpack(",
                                      "list",
                                      "host(",
                                      "_G",
                                      "goto a",
                                      "::a::",
                                      "<const>",
                                      "<close>"};

std::string source_of(std::string_view input) {
  if (!input.starts_with('\1')) return std::string(input);
  std::string source = "local a, b, t, f, s = 1, 2, {3, 1, 2, x = 4}, print, 'abc'\n";
  for (const char byte : input.substr(1)) {
    source += words[static_cast<unsigned char>(byte) % std::size(words)];
    source += ' ';
  }
  return source;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = source_of({reinterpret_cast<const char*>(data), size});
  const auto chunk = script::compile(source, "fuzz.lua");
  if (!chunk) {
    require(chunk.error().fault == script_fault::syntax, "compiling failed by another fault");
    return 0;
  }
  const ending first = run(*chunk);
  const ending second = run(*chunk);
  if (first.by_deadline || second.by_deadline) return 0;
  require(first.printed == second.printed, "two runs printed differently");
  require(first.error == second.error, "two runs ended differently");
  return 0;
}
