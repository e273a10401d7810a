// Scripts that try to take time, memory or control from the daemon. Each must end by the fault
// named beside it (or without one, having achieved nothing), within the limits. Time is the
// thread's own, so that a busy machine does not fail the test.
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/lua/sandbox.hpp"

namespace terrane::policies::lua {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// What one attack may take of a processor, the end of its state included.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr nanoseconds allowed = milliseconds(1500);
#else
constexpr nanoseconds allowed = milliseconds(50);
#endif
constexpr std::size_t allowed_bytes = 16u << 20;

struct attack {
  const char* name;
  const char* source;
  std::optional<script_fault> ends_by;
  const char* saying = "";
};

void PrintTo(const attack& a, std::ostream* out) { *out << a.name; }

constexpr auto budget = script_fault::budget;
constexpr auto memory = script_fault::memory;
constexpr auto runtime = script_fault::runtime;
constexpr auto syntax = script_fault::syntax;
constexpr std::optional<script_fault> harmless = std::nullopt;

struct outcome {
  std::optional<script_error> error;
  nanoseconds taken{};
  std::size_t peak_bytes = 0;
  std::string printed;
};

outcome run_once(const std::string& source) {
  outcome out;
  const nanoseconds begin = thread_time();
  const auto compiled = script::compile(source, "attack.lua");
  if (!compiled) {
    out.error = compiled.error();
    out.taken = thread_time() - begin;
    return out;
  }
  {
    sandbox box;
    if (const auto done = box.run(*compiled); !done) out.error = done.error();
    out.peak_bytes = box.peak_memory_bytes();
    out.printed = box.printed();
  }
  out.taken = thread_time() - begin;
  return out;
}

// The quickest of up to three runs: what else the machine does slows a run down, too.
outcome run(const std::string& source) {
  outcome best = run_once(source);
  for (int again = 0; again < 2 && best.taken >= allowed; ++again) {
    outcome next = run_once(source);
    if (next.taken < best.taken) best = std::move(next);
  }
  return best;
}

// Attacks that loop end by the budget or, on a slow machine, by the deadline.
bool ends_as_expected(const attack& a, const outcome& out) {
  if (!out.error) return !a.ends_by;
  if (!a.ends_by) return false;
  const bool too_slow = out.error->fault == script_fault::deadline;
  return out.error->fault == *a.ends_by ||
         (too_slow && (*a.ends_by == budget || *a.ends_by == memory));
}

class lua_sandbox_attack : public testing::TestWithParam<attack> {};

TEST_P(lua_sandbox_attack, is_stopped) {
  const attack& a = GetParam();
  const outcome out = run(a.source);
  EXPECT_TRUE(ends_as_expected(a, out))
      << (out.error ? std::string(to_string(out.error->fault)) + ": " + to_string(*out.error)
                    : std::string("ran to its end"));
  if (out.error && out.error->fault != script_fault::deadline) {
    EXPECT_THAT(to_string(*out.error), testing::HasSubstr(a.saying));
  }
  RecordProperty("microseconds", static_cast<int>(out.taken.count() / 1000));
  EXPECT_LT(out.taken, allowed) << out.taken.count() / 1000 << " us";
  EXPECT_LE(out.peak_bytes, allowed_bytes);
  EXPECT_THAT(out.printed, testing::Not(testing::HasSubstr("escaped")));
}

std::string name_of(const testing::TestParamInfo<attack>& info) { return info.param.name; }

// Time.
const attack of_time[] = {
    {"endless_while", "while true do end", budget, "attack.lua:1: the script ran more than 200000"},
    {"endless_goto", "::again:: goto again", budget},
    {"endless_repeat", "repeat until false", budget},
    {"endless_for", "for i = 1, math.maxinteger do end", budget},
    {"endless_float_for", "for i = 1.0, math.huge do end", budget},
    {"for_with_tiny_step", "for i = 1, 2, 1e-300 do end", budget},
    {"endless_for_in", "for k in function() return 1 end do end", budget},
    {"endless_tail_calls", "local function f() return f() end f()", budget},
    {"pcall_swallows", "while true do pcall(function() while true do end end) end", budget},
    {"pcall_swallows_at_depth", "local function f() pcall(f) pcall(f) while true do end end f()",
     budget},
    {"pcall_of_pcall", "while true do pcall(pcall, pcall, error) end", budget},
    {"xpcall_handler_loops",
     "xpcall(function() while true do end end, function() while true do end end) print 'escaped'",
     budget},
    {"xpcall_handler_raises", "while true do xpcall(error, error) end", budget},
    {"after_the_budget_in_a_handler",
     "xpcall(function() while true do end end, function() print 'escaped' end)", budget},
    {"error_value_prints",
     "local e = setmetatable({}, {__tostring = function() while true do end end}) print(e)",
     budget},
    {"index_chain_of_tables",
     "local t = {} for i = 1, 1990 do t = setmetatable({}, {__index = t}) end "
     "while true do local x = t.x end",
     budget},
    {"index_chain_of_functions",
     "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) local x = t[1]",
     runtime, "C stack overflow"},
    {"index_loop", "local t = {} setmetatable(t, {__index = t}) while true do local x = t.x end",
     runtime, "loop"},
    {"call_of_itself", "local t = {} setmetatable(t, {__call = t}) t()", memory},
    {"call_chain_added_later",
     "local m = {} local t = setmetatable({}, m) m.__call = t pcall(t) print 'escaped'", memory},
    {"colliding_integer_keys",
     "local m = ((1 << 14) - 1) * ((1 << 13) - 1) * ((1 << 12) - 1) local t = {} "
     "for i = 1, 100000 do t[i * m] = i end",
     memory},
    {"colliding_integer_keys_at_every_size",
     "local t = {} for b = 10, 13 do local m = (1 << b) - 1 "
     "for i = 1, 1 << 12 do t[i * m << 20] = i end end",
     memory},
    {"colliding_integer_keys_looked_up",
     "local m = ((1 << 13) - 1) * ((1 << 12) - 1) local t = {} for i = 1, 8000 do t[i * m] = i end "
     "while true do local x = t[9000 * m] end",
     budget},
    {"long_string_comparison",
     "local s = '\\0' for i = 1, 13 do s = s .. s end local a, b = s .. '\\0', s .. '\\0' "
     "while a <= b do end",
     budget},
    {"long_string_equality",
     "local s = 'x' for i = 1, 13 do s = s .. s end local a, b = s .. '1', s .. '1' "
     "while a == b do end",
     budget},
    {"long_string_keys",
     "local s = 'x' for i = 1, 13 do s = s .. s end local t = {} "
     "while true do t[s .. #t] = 1 t[#t + 1] = 1 end",
     budget},
    {"concat_in_a_loop",
     "local s = 'x' for i = 1, 13 do s = s .. s end while true do s = s:sub(1, 8192) .. s:sub(1, "
     "8192) end",
     budget},
    {"vararg_copies",
     "local function f(...) return f(...) end local t = {} for i = 1, 250 do t[i] = i end "
     "f(table.unpack(t))",
     budget},
    {"vararg_growth", "local function f(...) return f(1, 2, 3, 4, 5, 6, 7, 8, ...) end f()",
     memory},
    {"select_over_many",
     "local t = {} for i = 1, 250 do t[i] = i end while true do select(-1, table.unpack(t)) end",
     budget},
    {"sort_with_endless_comparison", "table.sort({3, 2, 1}, function() while true do end end)",
     budget},
    {"sort_in_sort",
     "local function c() table.sort({2, 1}, c) return true end table.sort({2, 1}, c)", runtime,
     "C stack overflow"},
    {"sort_big_list_again",
     "local t = {} for i = 1, 10000 do t[i] = -i end while true do table.sort(t) end", budget},
    {"pairs_of_a_big_map",
     "local t = {} for i = 1, 4000 do t['k' .. i] = i end while true do pairs(t) end", budget},
    {"next_of_a_big_map",
     "local t = {} for i = 1, 4000 do t['k' .. i] = i end while true do next(t) end", budget},
    {"insert_in_front", "local t = {} while true do table.insert(t, 1, 1) end", budget},
    {"concat_a_big_list",
     "local t = {} for i = 1, 2000 do t[i] = i end while true do table.concat(t, ',') end", budget},
    {"move_a_big_range", "while true do table.move({}, 1, 1 << 19, 2) end", budget},
    {"find_is_not_quadratic",
     "local s = 'a' for i = 1, 13 do s = s .. s end local n = s:sub(1, 4096) .. 'b' .. s:sub(1, "
     "4000) "
     "while true do s:find(n, 1, true) end",
     budget},
    {"format_in_a_loop", "while true do string.format('%99.99f', 1e308) end", budget},
    {"number_parsing",
     "local s = '1' for i = 1, 13 do s = s .. s end while true do tonumber(s) end", budget},
    {"string_for_limits",
     "local s = '1' for i = 1, 13 do s = s .. s end while true do pcall(function() "
     "for i = 1, s do break end end) end",
     budget},
    {"float_remainders", "local x = 1e308 while true do x = 1e308 % 5e-324 end", budget},
    {"power_in_a_loop", "while true do local x = 1.000001 ^ 1e6 end", budget},
    {"errors_from_depth",
     "local function f(n) if n == 0 then error 'x' end return pcall(f, n - 1) end "
     "while true do pcall(f, 60) end",
     budget},
    {"errors_naming_long_variables",
     "local function f() return nothing.like.this end while true do pcall(f) end", budget},
    {"tostring_recursion",
     "local t = setmetatable({}, {__tostring = function(s) return tostring(s) end}) tostring(t)",
     runtime, "C stack overflow"},
    {"concat_recursion",
     "local t t = setmetatable({}, {__concat = function(a, b) return a .. b end}) local x = t .. t",
     runtime, "C stack overflow"},
    {"power_recursion",
     "local t t = setmetatable({}, {__pow = function(a, b) return a ^ b end}) local x = t ^ 2",
     runtime, "C stack overflow"},
    {"pairs_metamethod_loops",
     "pairs(setmetatable({}, {__pairs = function() while true do end end}))", budget},
    {"comparison_metamethod_loops",
     "local m = {__lt = function() while true do end end} "
     "local x = setmetatable({}, m) < setmetatable({}, m)",
     budget},
    {"many_prints", "while true do print('x') end", budget},
    {"error_levels", "while true do pcall(error, 'x', 2147483647) end", budget},
};
INSTANTIATE_TEST_SUITE_P(time, lua_sandbox_attack, testing::ValuesIn(of_time), name_of);

// Memory.
const attack of_memory[] = {
    {"doubling_string", "local s = 'x' while true do s = s .. s end", runtime, "longer than"},
    {"doubling_string_swallowed",
     "local s = 'x' while true do pcall(function() s = s .. s end) end", budget},
    {"big_list", "local t = {} for i = 1, math.maxinteger do t[i] = i end", memory, "in one piece"},
    {"big_map", "local t = {} for i = 1, 100000 do t['k' .. i] = i end", memory},
    {"many_tables", "local t = {} while true do t = {t, {}, {}, {}, {}, {}, {}, {}} end", budget},
    {"many_wide_tables",
     "local t = {} for i = 1, 10000 do t[i] = table.move({}, 1, 1, 1) "
     "t[i] = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,"
     "32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,"
     "63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93}"
     " "
     "end",
     budget},
    {"many_wide_lists",
     "local n = {} for i = 1, 250 do n[i] = i end local function fill(...) local t = {} "
     "for i = 1, 10000 do t[i] = {...} end end fill(table.unpack(n))",
     memory, "16 MiB of memory"},
    {"garbage_lists",
     "local n = {} for i = 1, 250 do n[i] = i end local function fill(...) "
     "while true do local t = {...} end end fill(table.unpack(n))",
     memory, "16 MiB of memory"},
    {"many_strings",
     "local s = 'x' for i = 1, 13 do s = s .. s end local t = {} "
     "for i = 1, 3000 do t[i] = s:sub(2) end",
     budget},
    {"memory_fault_swallowed",
     "local n = {} for i = 1, 250 do n[i] = i end local function fill(...) local t = {} "
     "for i = 1, 10000 do t[i] = {...} end end pcall(fill, table.unpack(n)) print 'escaped'",
     memory},
    {"live_memory_at_the_cap",
     "local n, t = {}, {} for i = 1, 250 do n[i] = i end local function fill(...) "
     "while true do t[#t + 1] = {...} end end pcall(fill, table.unpack(n)) "
     "while true do pcall(function() return {} end) end",
     memory},
    {"deep_recursion", "local function f() return 1 + f() end f()", memory, "recursion"},
    {"deep_recursion_swallowed", "local function f() return 1 + f() end pcall(f) print 'escaped'",
     memory},
    {"mutual_recursion_through_pcall", "local function f() pcall(f) end f()", harmless},
    {"recursion_through_sort", "local f f = function() table.sort({1, 2}, f) end pcall(f)",
     harmless},
    {"unpack_huge", "table.unpack({}, 1, 1e8)", runtime, "at most 250"},
    {"unpack_overflowing", "table.unpack({}, math.mininteger, math.maxinteger)", runtime,
     "at most 250"},
    {"unpack_at_the_end", "table.unpack({}, math.maxinteger - 1, math.maxinteger)", harmless},
    {"byte_of_all", "local s = 'x' for i = 1, 13 do s = s .. s end s:byte(1, -1)", runtime,
     "at most 250"},
    {"move_huge", "table.move({}, 1, math.maxinteger, 2)", runtime, "too many elements"},
    {"move_wrapping", "table.move({1, 2, 3}, 1, 3, math.maxinteger)", runtime, "wrap around"},
    {"move_from_the_far_end", "table.move({}, math.mininteger, -1, 2)", runtime,
     "too many elements"},
    {"concat_huge_range", "table.concat({}, 'x', 1, math.maxinteger)", runtime, "invalid value"},
    {"concat_long_separator",
     "local s = 'x' for i = 1, 13 do s = s .. s end local t = {} for i = 1, 9999 do t[i] = '' end "
     "table.concat(t, s)",
     runtime, "longer than"},
    {"length_metamethod", "setmetatable({}, {__len = function() return 1 << 60 end})", runtime,
     "'__len' is not available"},
    {"length_metamethod_added_later",
     "local m = {} local t = setmetatable({1, 2}, m) m.__len = function() return 1 << 60 end "
     "assert(#t == 2) assert(#table.concat(t) == 2) table.sort(t) table.insert(t, 3) "
     "assert(select('#', table.unpack(t)) == 3)",
     harmless},
    {"index_metamethod_fakes_items",
     "local t = setmetatable({}, {__index = function() return 1 end}) "
     "assert(#t == 0) assert(table.concat(t) == '') table.sort(t) assert(table.unpack(t) == nil)",
     harmless},
    {"sparse_list",
     "local t = {} for i = 0, 62 do t[1 << i] = 1 end t[math.maxinteger] = 1 table.sort(t)",
     budget},
    {"sparse_list_grows",
     "local t = {} for i = 0, 62 do t[1 << i] = 1 end t[math.maxinteger] = 1 table.insert(t, 1, 1)",
     budget},
    {"sparse_list_appended",
     "local t = {} for i = 0, 62 do t[1 << i] = 1 end t[math.maxinteger] = 1 table.insert(t, 1) "
     "table.remove(t) t[#t + 1] = 1",
     harmless},
    {"insert_far_away", "local t = {[math.maxinteger] = 1} table.insert(t, 1) assert(t[1] == 1)",
     harmless},
    {"format_huge_width", "string.format('%99999d', 1)", runtime, "invalid directive"},
    {"format_huge_precision", "string.format('%.99999f', 1)", runtime, "invalid directive"},
    {"format_many_flags", "string.format('%----------5d', 1)", runtime, "invalid directive"},
    {"format_long_text",
     "local s = 'x' for i = 1, 13 do s = s .. s end string.format('%s%s%s', s, s, s)", runtime,
     "longer than"},
    {"char_many", "string.char(table.unpack({}, 1, 250))", runtime, "number expected"},
    {"stack_of_pcalls",
     "local f = pcall for i = 1, 100 do local g = f f = function() return pcall(g) end end f()",
     harmless},
};
INSTANTIATE_TEST_SUITE_P(memory, lua_sandbox_attack, testing::ValuesIn(of_memory), name_of);

// Control: ways out, and code that runs after the script was stopped.
const attack of_control[] = {
    {"coroutines", "coroutine.wrap(function() end)", runtime, "global 'coroutine'"},
    {"load", "load('x = 1')", runtime, "global 'load'"},
    {"loadstring", "loadstring('x = 1')", runtime, "global 'loadstring'"},
    {"dofile", "dofile('/etc/passwd')", runtime, "global 'dofile'"},
    {"loadfile", "loadfile('/etc/passwd')", runtime, "global 'loadfile'"},
    {"require", "require 'os'", runtime, "global 'require'"},
    {"package", "package.loadlib('x', 'y')", runtime, "global 'package'"},
    {"os", "os.execute('true')", runtime, "global 'os'"},
    {"io", "io.open('/etc/passwd')", runtime, "global 'io'"},
    {"debug", "debug.sethook()", runtime, "global 'debug'"},
    {"collectgarbage", "collectgarbage('count')", runtime, "global 'collectgarbage'"},
    {"string_dump", "string.dump(function() end)", runtime, "field 'dump'"},
    {"string_rep", "('x'):rep(1 << 40)", runtime, "method 'rep'"},
    {"string_match", "('x'):match('.-.-.-b')", runtime, "method 'match'"},
    {"string_gmatch", "('x'):gmatch('.')", runtime, "method 'gmatch'"},
    {"string_gsub", "('x'):gsub('.', 'y')", runtime, "method 'gsub'"},
    {"string_pack", "string.pack('i4', 1)", runtime, "field 'pack'"},
    {"find_with_a_pattern", "('aaa'):find('.-.-.-b')", runtime, "patterns are not available"},
    {"math_random", "math.random()", runtime, "field 'random'"},
    {"binary_chunk", "\x1bLua\x54\x00", syntax, ""},
    {"finalizer", "setmetatable({}, {__gc = function() print 'escaped' end})", runtime,
     "'__gc' is not available"},
    {"finalizer_false", "setmetatable({}, {__gc = false})", runtime, "'__gc' is not available"},
    {"finalizer_added_later",
     "local m = {} setmetatable({}, m) m.__gc = function() while true do print 'escaped' end end",
     harmless},
    {"finalizer_added_and_set_again",
     "local m = {} local t = setmetatable({}, m) m.__gc = print setmetatable(t, m)", runtime,
     "'__gc' is not available"},
    {"weak_tables", "setmetatable({}, {__mode = 'k'})", runtime, "'__mode' is not available"},
    {"hidden_metatable", "setmetatable({}, {__metatable = 1})", runtime, "'__metatable'"},
    {"closing_metamethod", "setmetatable({}, {__close = print})", runtime, "'__close'"},
    {"closing_variable", "local x <close> = nil", syntax, "attack.lua:1:10: variables that close"},
    {"closing_value_of_for",
     "local m = {} local c = setmetatable({}, m) m.__close = function() print 'escaped' end "
     "for k in next, {1}, nil, c do break end",
     harmless},
    {"closing_value_of_for_at_the_budget",
     "local m = {} local c = setmetatable({}, m) m.__close = function() print 'escaped' end "
     "local function all() return next, {1}, nil, c end for k in all() do while true do end end",
     budget},
    {"string_metatable", "getmetatable('').__index = nil", runtime, "nil value"},
    {"string_library", "string.upper = nil", runtime, "read-only"},
    {"string_library_raw", "rawset(string, 'upper', nil)", runtime, "read-only"},
    {"string_library_inserted", "table.insert(string, 1)", runtime, "read-only"},
    {"library_sorted", "table.sort(math)", runtime, "read-only"},
    {"library_moved_into", "table.move({1}, 1, 1, 1, math)", runtime, "read-only"},
    {"library_metatable", "setmetatable(string, {})", runtime, "read-only"},
    {"library_metatable_read", "assert(getmetatable(string) == nil)", harmless},
    {"library_through_pairs", "local _, t = pairs(string) t.upper = nil", runtime, "read-only"},
    {"library_through_pairs_state",
     "for k, v in pairs(math) do assert(type(k) == 'string') end local f, s, c = pairs(math) "
     "assert(s == math and c == nil)",
     harmless},
    {"library_through_ipairs", "local _, t = ipairs(string) t.upper = nil", runtime, "read-only"},
    {"library_through_next", "local k, v = next(string) assert(k == 'byte') string[k] = nil",
     runtime, "read-only"},
    {"operators_by_name", "__terrane_power = nil", syntax, "reserved"},
    {"operators_as_locals", "local __terrane_length = 1", syntax, "reserved"},
    {"operators_as_arguments", "print(...)", syntax, "'...'"},
    {"environment_replaced", "local _ENV = {} local x = #{1, 2} y = 'a' .. 1 ^ 2", syntax,
     "attack.lua:1:7: _ENV is not available"},
    {"environment_constant", "local _ENV <const> = 10 x = 1", syntax, "_ENV is not available"},
    {"math_over_many_arguments",
     "local t = {} for i = 1, 250 do t[i] = i end local function f(n, ...) "
     "if n > 0 then return f(n - 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...) end "
     "while true do math.max(...) end end f(100, table.unpack(t))",
     budget},
    {"colliding_float_keys",
     "local t = {} for i = 1, 100000 do t[(i * 8191 * 4095 + 0.5) * 2.0 ^ 9] = i end", memory},
    {"upvalues_by_the_hundred",
     "local a1, a2, a3, a4, a5, a6, a7, a8, a9, b1, b2, b3, b4, b5, b6, b7, b8, b9 while true do "
     "local f = function() return a1, a2, a3, a4, a5, a6, a7, a8, a9, b1, b2, b3, b4, b5, b6, b7, "
     "b8, b9 end end",
     memory},
    {"nested_protected_calls",
     "local function f(n, g, ...) if n == 0 then while true do end end return g(f, n - 1, g, ...) "
     "end f(150, pcall, pcall)",
     budget},
    {"environment_emptied",
     "local g = _G for k in pairs(g) do g[k] = nil end local x = #{1} .. 'a' while true do end",
     budget},
    {"environment_with_a_metatable",
     "setmetatable(_G, {__index = function(t, k) return k end}) assert(os == 'os')", harmless},
    {"pcall_replaced", "pcall = nil error = nil while true do end", budget},
    {"error_with_a_table", "error({})", runtime, "the error is a table"},
    {"error_with_nil", "error()", runtime, "the error is a nil"},
    {"error_with_tostring",
     "error(setmetatable({}, {__tostring = function() print 'escaped' while true do end end}))",
     runtime, "the error is a table"},
    {"stop_value_seen", "local ok, e = pcall(function() while true do end end) print('escaped', e)",
     budget},
    {"inconsistent_comparison",
     "local n = 0 local t = {} for i = 1, 500 do t[i] = i end "
     "table.sort(t, function() n = n + 1 return n % 3 == 0 end) assert(#t == 500)",
     harmless},
    {"comparison_always_true",
     "local t = {} for i = 1, 500 do t[i] = i end table.sort(t, function() return true end) "
     "assert(#t == 500)",
     harmless},
    {"comparison_empties_the_list",
     "local t = {5, 4, 3, 2, 1} table.sort(t, function(a, b) for i = 1, 5 do t[i] = nil end "
     "return a < b end) assert(t[1] == 1)",
     harmless},
    {"sort_of_mixed", "table.sort({1, 'a', {}})", runtime, "attempt to compare"},
    {"sort_of_not_a_number", "table.sort({0/0, 1, 0/0, -1})", harmless},
    {"address_in_format", "string.format('%p', {})", runtime, "invalid directive"},
    {"address_in_tostring", "assert(tostring({}) == 'table' and tostring(print) == 'function')",
     harmless},
    {"address_in_an_error",
     "local ok, e = pcall(function() return {} + print end) assert(e == "
     "'attack.lua:1: attempt to perform arithmetic on a table value' or e)",
     harmless},
    {"tables_as_keys", "for k in pairs({[{}] = 1}) do end", runtime, "no order"},
    {"functions_as_keys", "next({[print] = 1, [pcall] = 2})", runtime, "no order"},
    {"smallest_integer_divided",
     "assert(math.mininteger // -1 == math.mininteger and math.mininteger % -1 == 0 and "
     "math.fmod(math.mininteger, -1) == 0)",
     harmless},
    {"divided_by_zero", "local x = 0 return 1 // x", runtime, "attempt to"},
    {"fmod_by_zero", "math.fmod(1, 0)", runtime, "zero"},
    {"not_a_number_as_key", "local t = {} t[0/0] = 1", runtime, "index is NaN"},
    {"nil_as_key", "rawset({}, nil, 1)", runtime, ""},
    {"wrong_self", "string.upper()", runtime, "bad argument #1 to 'upper'"},
};
INSTANTIATE_TEST_SUITE_P(control, lua_sandbox_attack, testing::ValuesIn(of_control), name_of);

}  // namespace
}  // namespace terrane::policies::lua
