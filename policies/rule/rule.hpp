// The single internal form of a policy. YAML and Lua both compile to it, so lint, planning,
// explaining and tests know only this. Detectors (`enter`, `leave`) are data; only a Lua plan is
// code, and it is named here by its source text, not held. Immutable once loaded; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies::lua {
class script;
}

namespace terrane::policies {

enum class combination { all_of, any_of };

// At most this many comparisons in one condition.
inline constexpr std::size_t max_terms = 8;

// One comparison of a metric with a limit, met once it has been true for `held_ms`.
struct term {
  metric_id metric{};
  comparison compare = comparison::above;
  double limit = 0;  // of a truth 0 or 1; of a range where it begins
  double upper = 0;  // where a range ends
  std::int64_t held_ms = 0;
  source_location where;
};

// Whether a value is on the side that the term asks for.
bool compares(const term& t, double value);
// "above 92 %", "within 22:00-07:00", "true".
std::string limit_text(const term& t);

// Met once the combination of its terms has been true for `held_ms`.
struct condition {
  combination how = combination::all_of;
  std::vector<term> terms;
  std::int64_t held_ms = 0;
  source_location where;
};

struct target_choice {
  target_kind kind = target_kind::cpu;
  std::string device;  // when kind is device: a name or a pattern
  source_location where = {};
};

// What a YAML policy does, complete as data.
struct declarative_action {
  verb action = verb::move;            // move, spill, fetch, yield
  selection what = selection::layers;  // of a move
  std::string pattern;                 // when what is pattern
  std::vector<target_choice> from;     // of a move: whence, in this order; empty: from the object
  ordering order = ordering::top_down;
  extent until = extent::all;
  std::uint64_t until_bytes = 0;   // when until is bytes
  std::vector<target_choice> to;   // tried in this order for each candidate
  spilling spills = spilling::kv;  // of a spill
  std::uint64_t keep_tokens = 0;   // of a spill
};

// A Lua policy's plan and undo: the checked text that defines them, which is run again in a fresh
// sandbox for every plan that fires.
struct lua_action {
  std::shared_ptr<const lua::script> chunk;
  bool has_undo = false;
};

// What no file can say: the built-in policy that promotes parts (planner/promotion.hpp).
struct promotion_action {};

// At most `bytes` planned in any `per_ms`; 0 bytes: no limit.
struct rate_limit {
  std::uint64_t bytes = 0;
  std::int64_t per_ms = 0;
};

inline constexpr std::int32_t most_flaps = 20;
inline constexpr std::int64_t longest_flap_ms = 24 * 3'600'000;

// A subject that came home `times` times within `per_ms` is left away from home by this policy for
// as long again.
struct flap_limit {
  std::int32_t times = 3;
  std::int64_t per_ms = 600'000;
};

// How much KV each of the users that a policy is about may hold; 0 bytes: as much as there is.
struct kv_quota {
  std::uint64_t bytes = 0;
  std::string on = "all";  // "all", "gpu", a device's name or a pattern
};
inline constexpr std::string_view quota_in_all = "all", quota_on_gpus = "gpu";

struct rule {
  std::string name;
  source_location where;
  rule_mode mode = rule_mode::enforce;
  scope for_each = scope::gpu;
  std::vector<std::string> only;  // names or patterns of objects; empty: every one of the scope
  int priority = 50;              // 0 to 100; higher is asked first
  condition enter;
  condition leave;
  // Past `enter`: does not wait for the hold of `enter` nor for the cool-down. No terms: none.
  condition emergency;
  std::int64_t cooldown_ms = 0;     // at least this long between two plans for the same object
  std::int64_t min_stay_ms = 5000;  // parts that arrived less than this ago are left alone
  rate_limit limit;
  kv_quota quota;
  flap_limit flapping;
  std::variant<declarative_action, lua_action, promotion_action> action;
  undo_kind undo = undo_kind::none;
  // Of keys in the file, where the language tells.
  std::vector<std::pair<policy_key, source_location>> places;
};

// Where the file says it; where the policy begins, if the language does not tell.
const source_location& place_of(const rule& r, policy_key key);

// A driver's name becomes the pattern of its devices, wherever the rule names devices.
void name_devices(rule& r);

}  // namespace terrane::policies
