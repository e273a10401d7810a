// What host code uses to give scripts functions, objects and read-only tables. Everything here
// works on the lua_State that sandbox::enter hands out, and follows the C API's habits: values are
// pushed on and read from the stack, and what fails raises a Lua error, which is a C++ exception,
// so destructors run. Never catch it with `catch (...)`. One thread at a time, as the sandbox.
//
//   box.enter([&](lua_State* L) {
//     push_function(L, [&](lua_State* L) { record(luaL_checknumber(L, 1)); return 0; });
//     lua_setglobal(L, "record");
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "policies/lua/sandbox.hpp"

namespace terrane::policies::lua {

using native_function = int (*)(lua_State*);

// Pushes a C++ closure as a Lua function: it returns how many results it pushed. It lives as long
// as the sandbox at most. A std::exception that it throws ends the evaluation as an internal fault,
// which no script can catch; raise errors of the script's own making with luaL_error.
void push_function(lua_State* L, std::function<int(lua_State*)> function);

// Wraps a native function so that a std::exception ends the evaluation in the same way:
// lua_pushcfunction(L, guarded<my_function>).
int raise_exception(lua_State* L, const char* what);
template <native_function Function>
int guarded(lua_State* L) {
  char what[256];
  try {
    return Function(L);
  } catch (const std::exception& e) {
    std::string_view text = e.what();
    what[text.copy(what, sizeof what - 1)] = '\0';
  }
  return raise_exception(L, what);
}

// Replaces the table on top of the stack by a read-only view of it. Scripts can index it, take its
// length and walk it with pairs and ipairs, and cannot change it by any means; its type is "table".
// Only the table itself is protected: make nested tables read-only first.
void make_readonly(lua_State* L);

// A kind of host object. Objects of C++ type T are pushed by value with push_object<T> and are
// opaque to scripts but for what is given here. Define one as a constant: its address names it.
struct object_class {
  const char* name;                  // as type errors call it: "gpu"
  native_function index;             // (object, key) -> value; raise an error on unknown keys
  native_function length = nullptr;  // (object) -> integer, for `#`
  native_function pairs = nullptr;   // (object) -> iterator, state, start, for pairs()
  native_function call = nullptr;    // (object, ...) -> ..., for `for x in object do` and object()
  native_function to_string = nullptr;  // (object) -> string; default is the name
  native_function equal = nullptr;      // (object, object) -> boolean; default is identity
};

void* push_object_memory(lua_State* L, const object_class& kind, std::size_t bytes,
                         void (*destroy)(void*));
void* check_object_memory(lua_State* L, int index, const object_class& kind);

template <class T>
T& push_object(lua_State* L, const object_class& kind, T value) {
  static_assert(std::is_nothrow_move_constructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));
  void (*destroy)(void*) = nullptr;
  if constexpr (!std::is_trivially_destructible_v<T>) {
    destroy = [](void* memory) { std::destroy_at(static_cast<T*>(memory)); };
  }
  return *new (push_object_memory(L, kind, sizeof(T), destroy)) T(std::move(value));
}

// The object at a stack index, or a Lua error "bad argument #1 to 'f' (gpu expected, got nil)".
template <class T>
T& check_object(lua_State* L, int index, const object_class& kind) {
  return *static_cast<T*>(check_object_memory(L, index, kind));
}
bool is_object(lua_State* L, int index, const object_class& kind);

// Counts `units` against the budget, a unit being about one instruction, and looks at the clock.
// Host functions whose work grows with their arguments call it as they go.
void charge(lua_State* L, std::int64_t units);

// The argument at a stack index as text: a string, or a number in the sandbox's one way of writing
// it, which lua_tostring does not promise. Anything else raises a Lua error.
std::string_view check_text(lua_State* L, int index);

// Pushes what tostring() gives for the value at a stack index.
void push_text(lua_State* L, int index);

// What type() gives for the value at a stack index: the class's name for an object.
const char* type_name(lua_State* L, int index);

// Keeps the value on top of the stack, and pops it. push_kept pushes it again.
kept_value keep(lua_State* L);
void push_kept(lua_State* L, kept_value value);

// The line of the script that is running now: the innermost function written in Lua.
source_location current_place(lua_State* L);

// The length that `#` gives for the table or read-only view at a stack index: a border that depends
// on its contents only. Raw: no metamethods.
std::int64_t border(lua_State* L, int index);

// Pushes the plain table behind the table or read-only view at a stack index; false (nothing
// pushed) when it is neither. For host functions that take lists and option tables from scripts.
bool push_plain(lua_State* L, int index);

}  // namespace terrane::policies::lua
