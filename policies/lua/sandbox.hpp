// Runs one policy script where it can do no harm: no file, clock, chance or address to look at, a
// cap on memory, a budget of instructions and a deadline. A `script` is a checked and compiled
// source; it is immutable and any thread may share it. A `sandbox` is one evaluation: a fresh Lua
// state that lives from its construction to its destruction, used by one thread at a time; the
// budget and the deadline cover everything that happens in it. Nothing is retained between
// two sandboxes. Whatever goes wrong comes back as a `script_error`; the same script and inputs
// give the same results in every process and on every machine.
//
// How to add functions and objects of the host for scripts to use: sandbox_binding.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "policies/vocabulary/plan.hpp"

struct lua_State;

namespace terrane::policies::lua {

struct sandbox_limits {
  std::size_t memory_bytes = 16u << 20;   // of everything the state allocates, garbage included
  std::size_t block_bytes = 256u << 10;   // one allocation: 16384 list items or 8192 keys
  std::size_t stack_values = 4096;        // nested calls and arguments together
  std::size_t string_bytes = 16u << 10;   // the longest string a script can make
  std::size_t source_bytes = 64u << 10;   // the longest source
  std::size_t printed_bytes = 16u << 10;  // what print() keeps
  std::int64_t instructions = 200'000;    // of Lua; library functions charge for what they do
  std::chrono::nanoseconds deadline = std::chrono::milliseconds(25);  // from the first use
};

// Where time comes from: any monotonic reading. thread_time is what the calling thread has had of a
// processor. A script cannot wait, so this is the time it takes; and on a busy machine, where a
// script of one millisecond was seen to take 25 by the wall clock, decisions stay the same.
using clock_function = std::function<std::chrono::nanoseconds()>;
std::chrono::nanoseconds thread_time();

enum class script_fault {
  syntax,    // the source is not acceptable; the policy cannot be loaded
  runtime,   // the script raised an error or did something wrong
  budget,    // it ran too many instructions
  deadline,  // it took too long
  memory,    // it wanted too much memory, nested too deeply or held too long a list
  internal,  // the host's own code failed under it
};

const char* to_string(script_fault fault);

struct script_error {
  script_fault fault = script_fault::runtime;
  std::string message;    // without the place
  source_location where;  // column is known for faults of syntax only
};

// "file:line:column: message", leaving out what is unknown.
std::string to_string(const script_error& e);

// A compiled source. Copies are cheap and share one text.
class script {
 public:
  // Checks and compiles a source. `file` is the name that errors carry. Sources only, never
  // compiled Lua: a text that begins like a binary chunk is refused.
  static tl::expected<script, script_error> compile(std::string_view source, std::string file,
                                                    const sandbox_limits& limits = {});

  const std::string& file() const { return *file_; }

 private:
  friend class sandbox;
  script(std::string file, std::string code);

  std::shared_ptr<const std::string> file_;
  std::shared_ptr<const std::string> code_;  // Lua's own compiled form, made here and only here
};

// A Lua value that the host keeps, usually a function of the script. Valid as long as its sandbox.
struct kept_value {
  int slot = 0;
};

class sandbox {
 public:
  explicit sandbox(const sandbox_limits& limits = {}, clock_function clock = thread_time);
  ~sandbox();
  sandbox(const sandbox&) = delete;
  sandbox& operator=(const sandbox&) = delete;

  // Runs host code on the state: to define globals before the script, or to push a kept function
  // and its arguments, call it (lua_call) and read its results. Lua errors raised inside, the
  // script's included, end `body` by an exception that runs destructors, and come back as values;
  // so do std::exceptions. The Lua stack is emptied afterwards. Not to be nested.
  tl::expected<void, script_error> enter(const std::function<void(lua_State*)>& body);

  // Runs a script's top level, under the remaining budget. Once per sandbox is usual.
  tl::expected<void, script_error> run(const script& chunk);

  // What print() wrote, a line per call; the end is lost beyond the limit.
  const std::string& printed() const;

  std::int64_t instructions_used() const;  // library functions' charges included
  std::size_t peak_memory_bytes() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace terrane::policies::lua
