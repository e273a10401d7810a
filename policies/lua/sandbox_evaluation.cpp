#include "policies/lua/sandbox_evaluation.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <lua.hpp>

#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

// Instructions between two looks at the budget and the clock. The slowest instructions (comparing
// long strings, copying thousands of arguments) take some ten microseconds each.
constexpr int instructions_per_look = 128;

std::string in_unit(std::size_t bytes) {
  return bytes >= 1u << 20 ? std::to_string(bytes >> 20) + " MiB"
                           : std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

evaluation::evaluation(const sandbox_limits& limits, clock_function clock)
    : limits_(limits),
      clock_(std::move(clock)),
      memory_(limits.memory_bytes, limits.block_bytes),
      next_look_(instructions_per_look) {}

evaluation& evaluation::of(lua_State* L) {
  return **static_cast<evaluation**>(lua_getextraspace(L));
}

lua_State* evaluation::new_state() {
  lua_State* const made = lua_newstate(capped_allocator::allocate, &memory_);
  if (!made) return nullptr;
  *static_cast<evaluation**>(lua_getextraspace(made)) = this;
  // A state lives for one decision, so garbage is kept: memory then ends at the same instruction
  // in every process, and no collection can be provoked.
  lua_gc(made, LUA_GCSTOP);
  memory_.begin_stack();
  const bool has_stack = lua_checkstack(made, static_cast<int>(limits_.stack_values)) != 0;
  memory_.end_stack();
  if (!has_stack) {
    lua_close(made);
    return nullptr;
  }
  memory_.on_refusal = [this, made] { stop(made, script_fault::memory); };
  lua_sethook(made, on_count, LUA_MASKCOUNT, instructions_per_look);
  return made;
}

void evaluation::start() {
  if (!started_) started_ = clock_();
}

void evaluation::on_count(lua_State* L, lua_Debug*) {
  evaluation& self = of(L);
  if (!self.stop_) self.used_ += instructions_per_look;
  self.check(L);
}

void evaluation::charge(lua_State* L, std::int64_t units) {
  used_ += std::min(units, limits_.instructions + 1);  // a faked list may claim any size
  if (used_ >= next_look_ || stop_) check(L);
}

void evaluation::check(lua_State* L) {
  raise_if_stopped(L);
  next_look_ = used_ + instructions_per_look;
  if (used_ > limits_.instructions) {
    stop(L, script_fault::budget);
  } else if (started_ && clock_() - *started_ > limits_.deadline) {
    stop(L, script_fault::deadline);
  }
  raise_if_stopped(L);
}

// Allocates nothing in the state: this may be called from inside one of its allocations.
void evaluation::stop(lua_State* L, script_fault fault) {
  if (stop_) return;
  stop_ = fault;
  stopped_at_ = current_place(L);
  lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
}

void evaluation::stop_for_host_failure(lua_State* L, const char* what) {
  if (!stop_) host_failure_ = what;
  stop(L, script_fault::internal);
  raise(L);
}

void evaluation::raise_if_stopped(lua_State* L) {
  if (stop_) raise(L);
}

// A value that takes no memory to make. Scripts never see it.
void evaluation::raise(lua_State* L) {
  lua_pushlightuserdata(L, nullptr);
  lua_error(L);
  std::abort();  // lua_error does not return
}

script_error evaluation::stop_error() const { return {*stop_, stop_message(), stopped_at_}; }

std::string evaluation::stop_message() const {
  switch (*stop_) {
    case script_fault::budget:
      return "the script ran more than " + std::to_string(limits_.instructions) +
             " instructions; is there a loop that does not end?";
    case script_fault::deadline:
      return "the script took longer than " +
             std::to_string(
                 std::chrono::duration_cast<std::chrono::milliseconds>(limits_.deadline).count()) +
             " ms";
    case script_fault::memory:
      break;
    default:
      return host_failure_;
  }
  switch (memory_.refused()) {
    case refusal::stack:
      return "the script's calls hold more than " + std::to_string(limits_.stack_values) +
             " values; is there a recursion that does not end?";
    case refusal::block:
      return "a table of the script needs more than " + in_unit(limits_.block_bytes) +
             " in one piece; keep lists and maps shorter";
    default:
      return "the script needs more than " + in_unit(limits_.memory_bytes) + " of memory";
  }
}

}  // namespace terrane::policies::lua
