// Checks a Lua source and replaces the operators that Lua does not compute the same way in every
// process and on every machine by calls of the sandbox's own functions:
//
//   a ^ b        __terrane_power(a, b)        pow() of the C library differs between machines
//   a .. b .. c  __terrane_concat(a, b, c)    a not-a-number prints as "nan" or "-nan"; unbounded
//   #a           __terrane_length(a)          the border of a list with holes depends on addresses
//   for k in e   for k in __terrane_iterate(e)  drops the closing value, code that outlives errors
//
// It also refuses what has no place in a policy (variables that close, names of the functions
// above) and what makes Lua's compiler slow (thousands of jumps). Everything stays on its line. A
// syntax fault comes back with line and column. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace terrane::policies::lua {

struct syntax_fault {
  std::string message;
  int line = 0;
  int column = 0;
};

// The source to compile. Its chunk takes the four functions, in the order above, as arguments. No
// string or name in it is longer than `longest_token` bytes.
tl::expected<std::string, syntax_fault> rewrite(std::string_view source, std::size_t longest_token);

}  // namespace terrane::policies::lua
