#include "policies/lua/plan.hpp"

#include <optional>
#include <utility>

#include <lauxlib.h>
#include <lua.h>

#include "policies/lua/definitions.hpp"
#include "policies/lua/objects.hpp"
#include "policies/lua/recorder.hpp"

namespace terrane::policies::lua {

tl::expected<proposal, script_error> propose(const rule& r, const lua_action& action,
                                             entry_point entry, const object_ref& object) {
  const char* const field = entry == entry_point::plan ? "plan" : "undo";
  std::optional<kept_value> function;
  const auto on_policy = [&](lua_State* L, const std::string& name) {
    if (name != r.name) return;
    lua_getfield(L, -1, field);
    function = keep(L);
  };
  scene looked_at;
  // A busy machine is no fault of the policy: the deadline counts what the script had of a
  // processor.
  sandbox box({}, thread_time);
  auto done = box.enter([&](lua_State* L) {
    define_words(L, on_policy);
    define_objects(L, looked_at);
  });
  if (done) done = box.run(*action.chunk);
  if (!done) return tl::unexpected(done.error());
  if (!function) {
    return tl::unexpected(script_error{
        script_fault::runtime, "the file no longer defines policy '" + r.name + "'", r.where});
  }
  proposal wanted;
  done = box.enter([&](lua_State* L) {
    looked_at.now = object.now;
    push_kept(L, *function);
    push_judged(L, object);
    push_recorder(L, wanted);
    lua_call(L, 2, 0);
  });
  if (!done) return tl::unexpected(done.error());
  return wanted;
}

}  // namespace terrane::policies::lua
