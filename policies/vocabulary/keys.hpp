// The keys that a policy is written with: where each may stand, what it holds, its default, and a
// phrase that says it. Rows of the vocabulary's table: the YAML loader and the Lua loader ask for
// keys by these, and the JSON Schema and the reference page are made from them
// (policies/reference/). A new key is a value of `policy_key`, a row in keys.cpp, and what it does
// in the loader. Constant data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

// The only value of the `apiVersion` key.
inline constexpr std::string_view policy_version = "terrane/v1";

// The maps that a policy is written as. The name is for programs; `says` is how messages call it.
enum class place { file, policy, comparison, group, action, limit, flapping, quota, spill_options };
std::span<const word<place>> places();
std::string_view name_of(place p);

// Which language has the key.
enum class spoken_in { both, yaml, lua };

// What stands after a key.
enum class key_value : std::uint8_t {
  version,         // policy_version
  policy_list,     // a list of policies
  policy_name,     // 1 to 64 letters, digits, '-', '_' and '.'
  scope,           // a word of scopes()
  mode,            // a word of modes()
  names,           // an object's name or pattern, or a list of them
  whole_number,    // from `least` to `most`
  condition,       // a comparison, or a group of them
  condition_list,  // 1 to max_terms comparisons
  duration,
  bytes,
  limit_map,
  flapping_map,
  quota_map,
  action_map,
  undo,          // a word of undos()
  function,      // Lua: function (object, out)
  lua_undo,      // Lua: such a function, or "restore"
  metric,        // a metric's name
  quantity,      // in the unit of the metric beside it
  truth,         // true or false
  range,         // of times of day or days
  parts,         // a word of selections(), or a pattern over part names
  spilling,      // a word of spillings()
  kv,            // the word kv
  whole_device,  // the word device
  ordering,      // a word of orderings()
  extent,        // a word of extents(), or bytes
  targets,       // a word of targets(), a device's name or pattern, or a list of them
  origins,       // cpu, a device's name or pattern, or a list of them
  kv_place,      // all, gpu, a device's name or pattern
  target,        // Lua: a word of targets(), a device or its name
};

enum class policy_key : std::uint8_t {
  api_version,
  policies,
  name,
  for_each,
  only,
  mode,
  priority,
  enter,
  leave,
  emergency,
  cooldown,
  min_stay,
  flapping,
  limit,
  quota,
  action,
  undo,
  plan,
  lua_undo,
  metric,
  above,
  below,
  is,
  within,
  outside,
  held,
  all_of,
  any_of,
  group_held,
  move,
  spill,
  fetch,
  yield,
  order,
  from,
  until,
  to,
  keep_tokens,
  limit_bytes,
  limit_per,
  flapping_times,
  flapping_per,
  quota_bytes,
  quota_on,
  spill_what,
  spill_bytes,
  spill_to,
  spill_keep_tokens,
};

struct key_entry {
  policy_key id;
  place in;
  std::string_view name;
  spoken_in language;
  key_value holds;
  bool needed;
  std::string_view otherwise;  // what it is when it is left out; empty: nothing, or it is needed
  std::string_view says;       // a phrase for people
  std::string_view example;    // a value, as the language writes it
  std::int64_t least = 0;      // of a whole number
  std::int64_t most = 0;
};

std::span<const key_entry> policy_keys();
const key_entry& row_of(policy_key id);
// The key of a YAML map; null when the map has none of that name.
const key_entry* find_yaml_key(place in, std::string_view name);
// The keys of a place that a language has, in the table's order.
std::vector<const key_entry*> keys_of(place in, spoken_in language);
std::vector<std::string_view> key_names(place in, spoken_in language);

}  // namespace terrane::policies
