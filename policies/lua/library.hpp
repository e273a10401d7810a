// What scripts find in their environment: the allow-listed functions of Lua's own library,
// rewritten so that each is bounded, charges the budget for what it does and gives the same result
// in every process. Absent: debug, io, os, package, require, load, loadfile, dofile,
// collectgarbage, coroutine, utf8, patterns, string.rep, string.dump, math.random and the
// trigonometric functions. Texts are not numbers in arithmetic: "1" + 1 is an error. Internal to
// policies/lua; to add a function, write it in the file of its library and add it to the table at
// that file's end.
#pragma once

#include <cstddef>
#include <cstdint>

struct lua_State;
struct luaL_Reg;

namespace terrane::policies::lua {

struct object_class;

// Fills the state's globals. Raises a Lua error when memory does not suffice. A lua_CFunction.
int open_library(lua_State* L);

// Pushes the functions that rewritten operators call (sandbox_rewriter.hpp), in their order.
inline constexpr int operator_count = 4;
void push_operators(lua_State* L);

// Each library: the plain functions, ended by a null entry.
extern const luaL_Reg base_functions[];
extern const luaL_Reg math_functions[];
extern const luaL_Reg string_functions[];
extern const luaL_Reg table_functions[];

// Functions that have a file of their own.
int base_next(lua_State* L);
int base_pairs(lua_State* L);
int string_format(lua_State* L);
int table_sort(lua_State* L);

// A number as tostring() writes it, in at most this many bytes; returns how many.
inline constexpr std::size_t number_text_bytes = 48;
std::size_t write_number(lua_State* L, int index, char* text);

// The class of the host object or view at a stack index; null for everything else.
const object_class* kind_of(lua_State* L, int index);

// The writable table at an argument, or a Lua error.
void check_writable(lua_State* L, int index);
// Pushes the table that the argument is or shows, or raises a Lua error.
void push_list(lua_State* L, int index);

// Raises an error when a result of this many bytes would be too long a string, and charges for it.
void check_string_size(lua_State* L, std::size_t bytes);

}  // namespace terrane::policies::lua
