#include "policies/vocabulary/keys.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

constexpr word<place> place_table[] = {
    {place::file, "file", "a policy file"},
    {place::policy, "policy", "a policy"},
    {place::comparison, "comparison", "a condition"},
    {place::group, "group", "a condition"},
    {place::action, "action", "'do'"},
    {place::limit, "limit", "'limit'"},
    {place::flapping, "flapping", "'flapping'"},
    {place::quota, "quota", "'quota'"},
    {place::spill_options, "spill_options", "spill"},
};

constexpr auto in_both = spoken_in::both;
constexpr auto in_yaml = spoken_in::yaml;
constexpr auto in_lua = spoken_in::lua;

constexpr std::int64_t most_tokens = 1'000'000'000;

constexpr key_entry key_table[] = {
    {policy_key::api_version, place::file, "apiVersion", in_yaml, key_value::version, true, "",
     policy_version, policy_version},
    {policy_key::policies, place::file, "policies", in_yaml, key_value::policy_list, true, "",
     "a list of policies", "[]"},

    {policy_key::name, place::policy, "name", in_yaml, key_value::policy_name, true, "",
     "how messages call it", "vram-spill"},
    {policy_key::for_each, place::policy, "for_each", in_both, key_value::scope, true, "",
     "what it is judged for: gpu, cpu, device, session, tenant, part or host", "gpu"},
    {policy_key::only, place::policy, "only", in_both, key_value::names, false, "all",
     "the names of those objects, or patterns", "\"cuda:*\""},
    {policy_key::mode, place::policy, "mode", in_both, key_value::mode, false, "enforce",
     "whether it acts or only says what it would do", "shadow"},
    {policy_key::priority, place::policy, "priority", in_both, key_value::whole_number, false, "50",
     "who is asked first: higher goes before lower", "70", 0, 100},
    {policy_key::enter, place::policy, "enter", in_both, key_value::condition, true, "",
     "when it begins, with a metric and a limit",
     "{metric: vram.used_ratio, above: 92%, held: 5s}"},
    {policy_key::leave, place::policy, "leave", in_both, key_value::condition, true, "",
     "when it ends; without a second level a policy flaps",
     "{metric: vram.used_ratio, below: 84%, held: 30s}"},
    {policy_key::emergency, place::policy, "emergency", in_both, key_value::condition, false,
     "none", "a level past 'enter' that waits for neither its hold nor the cool-down",
     "{metric: vram.used_ratio, above: 98%}"},
    {policy_key::cooldown, place::policy, "cooldown", in_both, key_value::duration, false, "0",
     "at least this long between two plans for one object", "20s"},
    {policy_key::min_stay, place::policy, "min_stay", in_both, key_value::duration, false,
     "5s; 0 with 'yield'", "parts that arrived less than this ago are left alone", "10s"},
    {policy_key::flapping, place::policy, "flapping", in_both, key_value::flapping_map, false,
     "{times: 3, per: 10m}", "what came home so often stays away for as long",
     "{times: 3, per: 10m}"},
    {policy_key::limit, place::policy, "limit", in_both, key_value::limit_map, false, "none",
     "how much it may move in what time; one larger move goes alone", "{bytes: 4GiB, per: 10s}"},
    {policy_key::quota, place::policy, "quota", in_both, key_value::quota_map, false, "none",
     "how much KV a user may hold, reserved pages included; a request that would pass it is "
     "refused "
     "unless what the policy does makes room",
     "{bytes: 4GiB, on: gpu}"},
    {policy_key::action, place::policy, "do", in_yaml, key_value::action_map, true, "",
     "what is done, such as {move: layers, to: cpu}", "{move: layers, to: cpu}"},
    {policy_key::undo, place::policy, "undo", in_yaml, key_value::undo, false, "none",
     "what happens when it lets go", "restore"},
    {policy_key::plan, place::policy, "plan", in_lua, key_value::function, true, "",
     "called when it begins; says through 'out' what it wants",
     "function (gpu, out) out:decline \"not now\" end"},
    {policy_key::lua_undo, place::policy, "undo", in_lua, key_value::lua_undo, false,
     "nothing is undone", "what happens when it lets go: a function, or what it moved goes home",
     "\"restore\""},

    {policy_key::metric, place::comparison, "metric", in_yaml, key_value::metric, true, "",
     "what is compared, such as vram.used_ratio", "vram.used_ratio"},
    {policy_key::above, place::comparison, "above", in_yaml, key_value::quantity, false, "",
     "met while the metric is above this", "92%"},
    {policy_key::below, place::comparison, "below", in_yaml, key_value::quantity, false, "",
     "met while the metric is below this", "84%"},
    {policy_key::is, place::comparison, "is", in_yaml, key_value::truth, false, "",
     "met while a truth is this", "true"},
    {policy_key::within, place::comparison, "within", in_yaml, key_value::range, false, "",
     "met within this range of times of day or days, which may pass midnight or Sunday",
     "22:00-07:00"},
    {policy_key::outside, place::comparison, "outside", in_yaml, key_value::range, false, "",
     "met outside this range of times of day or days", "Sat-Sun"},
    {policy_key::held, place::comparison, "held", in_yaml, key_value::duration, false,
     "0; 'leave' six times that of 'enter'", "how long it must have been so", "5s"},

    {policy_key::all_of, place::group, "all_of", in_yaml, key_value::condition_list, false, "",
     "met while all of these are",
     "[{metric: idle_s, above: 45s}, {metric: context.tokens, above: 8192}]"},
    {policy_key::any_of, place::group, "any_of", in_yaml, key_value::condition_list, false, "",
     "met while one of these is",
     "[{metric: temp_c, above: 85C}, {metric: throttle.heat, is: true}]"},
    {policy_key::group_held, place::group, "held", in_yaml, key_value::duration, false,
     "0; 'leave' six times that of 'enter'", "how long it must have been so", "5s"},

    {policy_key::move, place::action, "move", in_yaml, key_value::parts, false, "",
     "move parts to another device", "layers"},
    {policy_key::spill, place::action, "spill", in_yaml, key_value::spilling, false, "",
     "move KV caches of sessions away, or what is cheaper to have away", "kv"},
    {policy_key::fetch, place::action, "fetch", in_yaml, key_value::kv, false, "",
     "bring a session's KV cache home", "kv"},
    {policy_key::yield, place::action, "yield", in_yaml, key_value::whole_device, false, "",
     "give all memory of the device back, and let nothing come until it releases", "device"},
    {policy_key::order, place::action, "order", in_yaml, key_value::ordering, false,
     "top_down; longest_idle for KV", "in which order candidates are taken", "largest_first"},
    {policy_key::from, place::action, "from", in_yaml, key_value::origins, false,
     "the device itself", "of 'move', for each device: whence parts come, in this order",
     "[\"vulkan:*\", cpu]"},
    {policy_key::until, place::action, "until", in_yaml, key_value::extent, false,
     "leave where its metric counts bytes, else all", "how much is enough", "2GiB"},
    {policy_key::to, place::action, "to", in_yaml, key_value::targets, false,
     "needed for 'move' and 'spill'",
     "cpu, most_free, coolest, a driver such as vulkan, or a device's name",
     "[most_free_gpu, cpu]"},
    {policy_key::keep_tokens, place::action, "keep_tokens", in_yaml, key_value::whole_number, false,
     "0", "of 'spill': the newest tokens whose KV stays", "1024", 0, most_tokens},

    {policy_key::limit_bytes, place::limit, "bytes", in_both, key_value::bytes, true, "",
     "how much, such as 4GiB", "4GiB"},
    {policy_key::limit_per, place::limit, "per", in_both, key_value::duration, true, "",
     "in what time, such as 10s", "10s"},

    {policy_key::flapping_times, place::flapping, "times", in_both, key_value::whole_number, true,
     "", "how often something may come home, such as 3", "3", 1, 20},
    {policy_key::flapping_per, place::flapping, "per", in_both, key_value::duration, true, "",
     "in what time, such as 10m", "10m"},

    {policy_key::quota_bytes, place::quota, "bytes", in_both, key_value::bytes, true, "",
     "how much, such as 4GiB", "4GiB"},
    {policy_key::quota_on, place::quota, "on", in_both, key_value::kv_place, false, "all",
     "where: all, gpu for all GPUs together, a driver such as vulkan, a device's name or a pattern",
     "gpu"},

    {policy_key::spill_what, place::spill_options, "what", in_lua, key_value::spilling, false, "kv",
     "kv of a session; cheaper of a device", "\"cheaper\""},
    {policy_key::spill_bytes, place::spill_options, "bytes", in_lua, key_value::bytes, false, "",
     "of cheaper: how much must leave the device", "GiB(2)"},
    {policy_key::spill_to, place::spill_options, "to", in_lua, key_value::target, false, "cpu",
     "the device that the KV goes to", "\"host\""},
    {policy_key::spill_keep_tokens, place::spill_options, "keep_tokens", in_lua,
     key_value::whole_number, false, "0", "the newest tokens whose KV stays", "1024", 0,
     most_tokens},
};

bool has(const key_entry& entry, spoken_in language) {
  return entry.language == in_both || entry.language == language;
}

}  // namespace

std::span<const word<place>> places() { return place_table; }
std::string_view name_of(place p) {
  return std::ranges::find(place_table, p, &word<place>::value)->name;
}

std::span<const key_entry> policy_keys() { return key_table; }

// The table is in the order of the ids; tests/policies/keys_test.cpp checks it.
const key_entry& row_of(policy_key id) { return key_table[static_cast<std::size_t>(id)]; }

const key_entry* find_yaml_key(place in, std::string_view name) {
  for (const key_entry& entry : key_table) {
    if (entry.in == in && entry.name == name && has(entry, spoken_in::yaml)) return &entry;
  }
  return nullptr;
}

std::vector<const key_entry*> keys_of(place in, spoken_in language) {
  std::vector<const key_entry*> found;
  for (const key_entry& entry : key_table) {
    if (entry.in == in && has(entry, language)) found.push_back(&entry);
  }
  return found;
}

std::vector<std::string_view> key_names(place in, spoken_in language) {
  std::vector<std::string_view> names;
  for (const key_entry* entry : keys_of(in, language)) names.push_back(entry->name);
  return names;
}

}  // namespace terrane::policies
