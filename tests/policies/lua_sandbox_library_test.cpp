// What scripts can rely on: Lua's own library where it is kept, line by line, and the ways in which
// the sandbox's operators and functions differ from it on purpose.
#include <string>

#include <gtest/gtest.h>

#include "policies/lua/sandbox.hpp"

namespace terrane::policies::lua {
namespace {

struct example {
  const char* expression;
  const char* prints;
};

void PrintTo(const example& e, std::ostream* out) { *out << e.expression; }

std::string printed_by(const std::string& source) {
  const auto compiled = script::compile(source, "t.lua");
  if (!compiled) return to_string(compiled.error());
  sandbox box;
  const auto done = box.run(*compiled);
  std::string text = done ? box.printed() : to_string(done.error());
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class lua_sandbox_library : public testing::TestWithParam<example> {};

TEST_P(lua_sandbox_library, prints_as_expected) {
  const example& e = GetParam();
  EXPECT_EQ(printed_by("print(" + std::string(e.expression) + ")"), e.prints) << e.expression;
}

const example operators[] = {
    {"2^10, 2^-1, 10^2, 2^0.5", "1024.0\t0.5\t100.0\t1.4142135623731"},
    {"2^3^2, -2^2, 2^-2^0, (2^3)^2", "512.0\t-4.0\t0.5\t64.0"},
    {"-3^2 .. 'x' .. 2^2", "-9.0x4.0"},
    {"'a' .. 'b' .. 1 .. 2.0 .. -0.0", "ab12.0-0.0"},
    {"1 .. 2 == '12', 'a' .. 'b' < 'b', not ('a' .. 'b')", "true\ttrue\tfalse"},
    {"0/0 .. '', -(0/0) .. '', 1/0 .. '', -1/0 .. ''", "nan\tnan\tinf\t-inf"},
    {"#'abc' + #'de' * 2, -#'abc', #'a' .. #'bc', #'x' ^ 2 == nil",
     "t.lua:1: attempt to raise to a power with a string value"},
    {"#{}, #{1, 2, 3}, #{n = 1}, #{nil, 2}, #{1, nil, 3}", "0\t3\t0\t0\t1"},
    {"#({{}, {{}}})[2], #('x')", "1\t1"},
    {"(function(...) return #... end)('four')", "4"},
    {"(function(...) return 'a' .. ... end)('b', 'c')", "ab"},
    {"'a' .. (function() return 'b', 'c' end)()", "ab"},
    {"2 ^ (function() return 3, 4 end)()", "8.0"},
    {"setmetatable({}, {__concat = function(a, b) return type(a) .. type(b) end}) .. 'x'",
     "tablestring"},
    {"'x' .. 'y' .. setmetatable({}, {__concat = function(a, b) return a .. '!' end})", "xy!"},
    {"2 ^ setmetatable({}, {__pow = function(a, b) return a end}), "
     "setmetatable({}, {__pow = function(a, b) return b end}) ^ 3",
     "2\t3"},
    {"7 // 2, -7 // 2, 7.5 // 2, 7 % -3, -7 % 3, 5.5 % 2, -5.5 % 2", "3\t-4\t3.0\t-2\t2\t1.5\t0.5"},
    {"3 / 2, 4 / 2, 1e15, 2^53, 1e100, 123456789012345678",
     "1.5\t2.0\t1e+15\t9.007199254741e+15\t1e+100\t123456789012345678"},
    {"1 << 62, 1 << 63, 1 << 64, ~0, 5 & 6, 5 | 6, 5 ~ 6",
     "4611686018427387904\t-9223372036854775808\t0\t-1\t4\t7\t3"},
    {"math.maxinteger + 1 == math.mininteger, 1 == 1.0, '1' == 1", "true\ttrue\tfalse"},
    {"'a' < 'b', 'a' < 'B', 'Z' < 'a', '' < 'a', 'a\\0b' < 'a\\0c'",
     "true\tfalse\ttrue\ttrue\ttrue"},
};
INSTANTIATE_TEST_SUITE_P(operators, lua_sandbox_library, testing::ValuesIn(operators));

const example base[] = {
    {"type(nil), type(1), type('x'), type({}), type(print), type(math)",
     "nil\tnumber\tstring\ttable\tfunction\ttable"},
    {"tostring(nil), tostring(1e15), tostring(-0.0), tostring({}), tostring(print)",
     "nil\t1e+15\t-0.0\ttable\tfunction"},
    {"tostring(setmetatable({}, {__tostring = function() return 'me' end}))", "me"},
    {"tonumber('0x1p4'), tonumber(' 12 '), tonumber('1e1'), tonumber('0x'), tonumber('')",
     "16.0\t12\t10.0\tnil\tnil"},
    {"tonumber('ff', 16), tonumber('-zz', 36), tonumber('8', 8), tonumber('1 1', 10), tonumber({})",
     "255\t-1295\tnil\tnil\tnil"},
    {"tonumber('1,5'), tonumber('inf'), tonumber('nan'), tonumber('0b1')", "nil\tnil\tnil\tnil"},
    {"select('#', nil, nil), select(2, 'a', 'b', 'c')", "2\tb\tc"},
    {"select(-1, 'a', 'b'), pcall(select, 0)",
     "b\tfalse\tbad argument #1 to '?' (index out of range)"},
    {"pcall(error, 'x', 0), (pcall(error))", "false\tfalse"},
    {"pcall(function() error 'x' end)", "false\tt.lua:1: x"},
    {"pcall(function() error('x', 2) end)", "false\tx"},
    {"select('#', pcall(function() return 1, nil, nil end))", "4"},
    {"xpcall(function(a) return a end, print, 5)", "true\t5"},
    {"xpcall(function() error('x', 0) end, function(e) return e .. '!' end)", "false\tx!"},
    {"xpcall(error, function(e) error('again', 0) end)", "false\tagain"},
    {"pcall(assert, false), pcall(assert, nil, 'why'), assert(1, 2)", "false\tfalse\t1\t2"},
    {"next({}), next({10}), next({10}, 1), (next({b = 1, a = 2}))", "nil\t1\tnil\ta"},
    {"rawget(setmetatable({}, {__index = print}), 1), rawlen({1, 2}), rawequal('a', 'a')",
     "nil\t2\ttrue"},
    {"rawset(setmetatable({}, {__newindex = print}), 1, 2)[1]", "2"},
    {"getmetatable({}), getmetatable('x'), getmetatable(math), getmetatable(1)",
     "nil\tnil\tnil\tnil"},
    {"getmetatable(setmetatable({}, {x = 5})).x, setmetatable({}, nil) ~= nil", "5\ttrue"},
    {"_G._G == _G, _G.print == print", "true\ttrue"},
};
INSTANTIATE_TEST_SUITE_P(base, lua_sandbox_library, testing::ValuesIn(base));

const example strings[] = {
    {"('x'):upper(), ('X'):lower(), ('abc'):reverse(), ('abc'):len()", "X\tx\tcba\t3"},
    {"('abc'):sub(2), ('abc'):sub(-2), ('abc'):sub(2, 2), ('abc'):sub(0), ('abc'):sub(5), "
     "('abc'):sub(-9, 1)",
     "bc\tbc\tb\tabc\t\ta"},
    {"('abc'):sub(math.mininteger, math.maxinteger), ('abc'):sub(3, 2) == ''", "abc\ttrue"},
    {"('abc'):byte(), ('abc'):byte(-1), ('abc'):byte(1, -1)", "97\t99\t97\t98\t99"},
    {"(('abc'):byte(9)), string.char(72, 105), string.char() == ''", "nil\tHi\ttrue"},
    {"('hello'):find('l'), ('hello'):find('xyz'), ('hello'):find('')", "3\tnil\t1\t0"},
    {"('a.b'):find('.', 1, true)", "2\t2"},
    {"('hello'):find('l', 4), ('hello'):find('l', -1), ('hello'):find('', 6), ('hello'):find('', "
     "9)",
     "4\tnil\t6\tnil"},
    {"('%5.2f|%-6d|%+d|%05d|%x|%X|%o|%c|%%'):format(3.14159, 42, 5, 42, 255, 255, 8, 65)",
     " 3.14|42    |+5|00042|ff|FF|10|A|%"},
    {"('%s %10s %-4s| %.2s'):format(true, 'abc', 'x', 'xyz')", "true        abc x   | xy"},
    {"('%g %g %g %e'):format(1e20, 0.1, 100, 12345.678)", "1e+20 0.1 100 1.234568e+04"},
    {"('%f %5.1f %g %d'):format(0/0, -(0/0), 1/0, 3.0)", "nan   nan inf 3"},
    {"('%s'):format(setmetatable({}, {__tostring = function() return 'me' end}))", "me"},
    {"pcall(string.format, '%d', 3.5)",
     "false\tbad argument #2 to '?' (number has no integer representation)"},
    {"pcall(string.format, '%s')", "false\tbad argument #2 to '?' (value expected)"},
    {"(pcall(string.format, '%')), (pcall(string.format, '%q', 1)), (pcall(string.format, '%a', "
     "1)), (pcall(string.format, '%123d', 1))",
     "false\tfalse\tfalse\tfalse"},
    {"string.len('a\\0b'), #'\\u{20AC}', string.upper('\\u{E4}') == '\\u{E4}'", "3\t3\ttrue"},
    {"string.len(12), ('x' .. 0/0):upper(), string.upper(0/0)", "2\tXNAN\tNAN"},
};
INSTANTIATE_TEST_SUITE_P(strings, lua_sandbox_library, testing::ValuesIn(strings));

const example tables[] = {
    {"table.concat({1, 2, 3}), table.concat({1, 'a', 2.5}, ', '), table.concat({}, 'x'), "
     "table.concat({1, 2, 3}, '-', 2, 3)",
     "123\t1, a, 2.5\t\t2-3"},
    {"pcall(table.concat, {1, {}, 3})",
     "false\tinvalid value (a table value) at index 2 in table for 'concat'"},
    {"table.unpack({1, 2, 3})", "1\t2\t3"},
    {"table.unpack({1, 2, 3}, 2), (table.unpack({1, 2}, 3, 3))", "2\tnil"},
    {"table.pack(1, nil, 3).n, #table.pack(), table.pack('a')[1]", "3\t0\ta"},
    {"table.concat(table.move({1, 2, 3}, 1, 3, 2), ','), table.concat(table.move({1, 2, 3}, 2, 3, "
     "1), ','), "
     "table.concat(table.move({1, 2}, 1, 2, 1, {}), ',')",
     "1,1,2,3\t2,3,3\t1,2"},
    {"(function() local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return table.concat(t, "
     "',') end)()",
     "0,1,2,3"},
    {"(function() local t = {1, 2, 3} return table.remove(t), table.remove(t, 1), #t, t[1] end)()",
     "3\t1\t1\t2"},
    {"(function() local t = {} return table.remove(t), #t, table.remove(t, 0) end)()",
     "nil\t0\tnil"},
    {"(pcall(table.insert, {}, 5, 1)), (pcall(table.insert, {})), (pcall(table.remove, {1}, 5))",
     "false\tfalse\tfalse"},
    {"(function() local t = {3, 1, 2} table.sort(t) return table.concat(t, ',') end)()", "1,2,3"},
    {"(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return "
     "table.concat(t, ',') end)()",
     "3,2,1"},
    {"(function() local t = {'b', 'a', 'C'} table.sort(t) return table.concat(t, ',') end)()",
     "C,a,b"},
    {"(function() local t = {} for i = 1, 9 do t[i] = {k = i % 3, i = i} end "
     "table.sort(t, function(a, b) return a.k < b.k end) local s = '' for _, v in ipairs(t) do s = "
     "s .. v.i end return s end)()",
     "369147258"},
    {"(function() local s = '' for k, v in pairs({10, 20, x = 1, a = 2, [1.5] = 3, [true] = 4, "
     "[false] = 5, [-1] = 6, [2^60] = 7}) do s = s .. tostring(k) .. ' ' end return s end)()",
     "-1 1 1.5 2 1152921504606846976 a x false true "},
    {"(function() local s, t = '', {1, 2, 3, 4} for k in pairs(t) do s = s .. k t[k] = nil t[k + "
     "1] = nil end return s end)()",
     "13"},
    {"(function() local s = '' for k, v in next, {b = 1, a = 2} do s = s .. k .. v end return s "
     "end)()",
     "a2b1"},
    {"(function() local s = '' for i, v in ipairs({1, 2, nil, 4}) do s = s .. i end return s "
     "end)()",
     "12"},
    {"(function() local s = '' for k, v in pairs(setmetatable({}, {__pairs = function(t) return "
     "function(_, k) if not k then return 1, 2 end end, t, nil end})) do s = s .. k .. v end "
     "return s end)()",
     "12"},
};
INSTANTIATE_TEST_SUITE_P(tables, lua_sandbox_library, testing::ValuesIn(tables));

const example maths[] = {
    {"math.floor(2.7), math.floor(-2.7), math.ceil(2.1), math.floor(5), math.floor(1e300)",
     "2\t-3\t3\t5\t1e+300"},
    {"math.abs(-5), math.abs(-5.5), math.abs(math.mininteger) == math.mininteger", "5\t5.5\ttrue"},
    {"math.max(1, 3, 2), math.min(1, 3, 2), math.max(1.5, 1), math.max(2, 2.0)", "3\t1\t1.5\t2"},
    {"math.sqrt(2), math.sqrt(9), math.pi, math.huge, -math.huge",
     "1.4142135623731\t3.0\t3.1415926535898\tinf\t-inf"},
    {"math.fmod(7, 3), math.fmod(-7, 3), math.fmod(5.5, 2), math.modf(3.7)",
     "1\t-1\t1.5\t3.0\t0.7"},
    {"math.modf(-math.huge)", "-inf\t0.0"},
    {"math.exp(0), math.exp(1), math.log(1), math.log(8, 2), math.log(100, 10), math.log(0)",
     "1.0\t2.718281828459\t0.0\t3.0\t2.0\t-inf"},
    {"math.tointeger(3.0), math.tointeger(3.5), math.tointeger('3'), math.type(1), math.type(1.0), "
     "math.type('1')",
     "3\tnil\tnil\tinteger\tfloat\tnil"},
    {"math.ult(1, -1), math.maxinteger, math.mininteger",
     "true\t9223372036854775807\t-9223372036854775808"},
    {"pcall(math.floor, 'x')", "false\tbad argument #1 to '?' (number expected, got string)"},
    {"pcall(math.max)", "false\tbad argument #1 to '?' (number expected, got no value)"},
};
INSTANTIATE_TEST_SUITE_P(maths, lua_sandbox_library, testing::ValuesIn(maths));

}  // namespace
}  // namespace terrane::policies::lua
