// What one sandbox knows about itself while a script runs: its limits, what was used of them, and
// whether it has been stopped. The C functions of the library reach it from the Lua state. Once
// stopped, it stays so: every function called and every instruction raises the stop again, and
// pcall passes it on, so no script can catch it. Internal to policies/lua; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policies/lua/allocator.hpp"
#include "policies/lua/sandbox.hpp"

struct lua_Debug;

namespace terrane::policies::lua {

class evaluation {
 public:
  evaluation(const sandbox_limits& limits, clock_function clock);

  static evaluation& of(lua_State* L);

  // Makes a state with nothing in it but the stack; null when memory does not suffice.
  lua_State* new_state();

  // Counts work, and stops the script (raises a Lua error) when it is too much.
  void charge(lua_State* L, std::int64_t units);

  // Raises the stop if there is one. For functions that run others protected.
  void raise_if_stopped(lua_State* L);

  // Stops the script because host code failed, and raises that.
  void stop_for_host_failure(lua_State* L, const char* what);

  // Starts the deadline, if it does not run yet.
  void start();

  bool stopped() const { return stop_.has_value(); }
  // The stop as an error; requires stopped().
  script_error stop_error() const;

  const sandbox_limits& limits() const { return limits_; }
  std::int64_t used() const { return used_; }
  const capped_allocator& memory() const { return memory_; }

  std::string printed;
  script_error reported;  // the error that ended the last protected call, unless stopped

 private:
  static void on_count(lua_State* L, lua_Debug* event);
  void check(lua_State* L);
  void stop(lua_State* L, script_fault fault);
  [[noreturn]] static void raise(lua_State* L);
  std::string stop_message() const;

  sandbox_limits limits_;
  clock_function clock_;
  capped_allocator memory_;
  std::int64_t used_ = 0;
  std::int64_t next_look_ = 0;  // at the clock
  std::optional<std::chrono::nanoseconds> started_;
  std::optional<script_fault> stop_;
  source_location stopped_at_;
  std::string host_failure_;
};

}  // namespace terrane::policies::lua
