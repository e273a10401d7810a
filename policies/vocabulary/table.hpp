// The words of the policy language, in one table: scopes, metrics, comparisons, selections, orders,
// targets, verbs and units. The YAML loader, the Lua binding, lint and the error hints all read it,
// so a word added here exists in every one of them. Constant data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// A word of the language and what it stands for.
template <class T>
struct word {
  T value;
  std::string_view name;
  std::string_view says;
};

// What a policy is judged for, one object at a time (`for_each`).
enum class scope { host, device, gpu, cpu, session, tenant, part };

enum class unit {
  ratio,  // a share of a whole, 0 to 1
  bytes,
  celsius,
  seconds,
  tokens,
  percent,  // of time, 0 to 100
  watts,
  count,
  truth,        // 0 or 1
  time_of_day,  // seconds since midnight
  weekday,      // 1 is Monday, 7 is Sunday
};

// How a reading is compared with a limit. Which of them suit a metric follows from its unit.
enum class comparison {
  above,
  below,
  is,       // of a truth
  within,   // of a range that may pass midnight or Sunday, such as 22:00-07:00 or Sat-Sun
  outside,  // of such a range
};

enum class metric_id : std::uint8_t {
  vram_used_ratio,
  vram_used,
  vram_free,
  vram_total,
  vram_ours,
  vram_others,
  yield_asked,
  temp_c,
  temp_limit_c,
  temp_shutdown_c,
  temp_margin_c,
  power_w,
  power_limit_w,
  power_ratio,
  utilisation,
  throttle_heat,
  throttle_power,
  fan_ratio,
  context_tokens,
  context_used_ratio,
  idle_s,
  kv_bytes,
  kv_gpu_bytes,
  kv_reserved_bytes,
  tenant_kv_bytes,
  tenant_gpu_kv_bytes,
  tenant_reserved_bytes,
  tenant_sessions,
  part_bytes,
  part_weight_bytes,
  part_kv_bytes,
  part_age_s,
  host_memory_used_ratio,
  host_memory_available,
  host_memory_total,
  host_pressure,
  host_cpu_pressure,
  host_cpu_used_ratio,
  host_cpu_others_ratio,
  host_time,
  host_weekday,
  host_on_battery,
  host_battery_ratio,
  model_bytes,
  model_kv_bytes,
  promotion_on,
};

// The one object of a snapshot that a policy is being judged for. The pointers fit its scope; a
// host object has none. Valid as long as the snapshot.
struct object_ref {
  const snapshot* now = nullptr;
  const device_state* device = nullptr;
  const session_state* session = nullptr;
  const part_state* part = nullptr;
  const tenant_state* tenant = nullptr;
};

// The name by which latches and records know an object.
const std::string& object_name(const object_ref& object);

// What runs short.
enum class resource {
  unknown,  // decides nothing
  memory,
  work,  // heat or load: what computes on the device makes it
};

struct metric_entry {
  metric_id id;
  std::string_view name;  // in both languages: above("vram.used_ratio", ...)
  scope belongs_to;  // host, device, session, tenant or part; host's may be used for every object
  unit measured_in;
  std::string_view says;     // a phrase for people
  std::string_view example;  // a limit, as YAML writes it
  // Its value for an object of its scope.
  reading (*read)(const object_ref& object);
  // How many bytes must leave the object until the metric reaches `limit`; null when no number of
  // bytes brings it there. Negative when it is already beyond.
  double (*bytes_until)(const object_ref& object, double limit) = nullptr;
  // The one field of the snapshot that it is; both null when it is computed.
  reading device_state::*device_field = nullptr;
  reading host_state::*host_field = nullptr;
  // Of what there is too little when it is beyond its limit.
  resource short_of = resource::unknown;
  // The largest that it can be, where that is not the largest of its unit; infinity: there is none.
  std::optional<double> most = std::nullopt;
};

std::span<const metric_entry> metrics();
const metric_entry& metric(metric_id id);

// Which parts `do: {move: ...}` is about. Anything else is a pattern over part names with * and ?.
enum class selection {
  parts,
  layers,
  attention,
  feed_forward,
  experts,
  head,
  embedding,
  pattern,
};
// The order in which candidates are taken. The top of a model is its head, the bottom its
// embedding.
enum class ordering { top_down, bottom_up, largest_first, smallest_first, longest_idle, best };
// What `do: {spill: ...}` takes.
enum class spilling { kv, cheaper };
// How far a plan goes.
enum class extent { all, leave, bytes };
// Whether a policy acts or only says what it would do.
enum class rule_mode { enforce, shadow };
// What happens when the latch releases.
enum class undo_kind {
  none,     // what was moved stays, and this policy no longer holds it
  restore,  // what this policy moved goes home
  script,   // the Lua policy's undo decides
};
// Where to; anything else is a device's name.
enum class target_kind { cpu, most_free, most_free_gpu, coolest, itself, device };

std::span<const word<scope>> scopes();
std::span<const word<comparison>> comparisons();
std::span<const word<unit>> measures();
std::span<const word<device_kind>> device_kinds();
std::span<const word<part_kind>> part_kinds();
std::span<const word<selection>> selections();
std::span<const word<ordering>> orderings();
std::span<const word<spilling>> spillings();
std::span<const word<extent>> extents();
std::span<const word<target_kind>> targets();
std::span<const word<verb>> verbs();
// What devices are driven by. Where a device's name or a pattern may stand, one of these stands for
// all of its devices.
std::span<const std::string_view> drivers();
// "vulkan:*" for "vulkan"; any other name as it is.
std::string device_pattern(std::string name);
std::span<const word<rule_mode>> modes();
std::span<const word<undo_kind>> undos();  // those that have a name

// The steps of a selector chain, `gpu:parts():movable():top_down()`. Each is defined on lists of
// one kind of object and gives a list of the same kind, in a defined order, or one object.
enum class selector {
  movable,
  top_down,
  bottom_up,
  largest_first,
  smallest_first,
  longest_idle,
  of_kind,
  matching,
  on,
  except,
  gpus,
  cpus,
  cooler_than,
  with_room,
  idle_for,
  of_tenant,
  until_bytes,
  first,
  most_free,
  coolest,
};
enum class list_kind { parts, devices, sessions, tenants };
enum class argument_kind { none, number, name };

struct selector_entry {
  list_kind of;
  selector id;
  std::string_view name;
  argument_kind argument;
  std::string_view says;
  std::string_view example;
  bool gives_one = false;  // one object or nil, instead of a list
};
std::span<const selector_entry> selectors();
const selector_entry* find_selector(list_kind of, std::string_view name);
std::vector<std::string_view> selector_names(list_kind of);

// A suffix of a quantity: "92%", "4GiB", "5s".
struct unit_entry {
  std::string_view symbol;
  unit measured_in;
  double factor;  // to the unit in which readings are kept: ratio, bytes, celsius, seconds, ...
};
std::span<const unit_entry> units();
// Whether a Lua chunk has the unit as a function: those of bytes, GiB(4).
bool has_function(const unit_entry& u);

std::string_view name_of(scope s);
std::string_view name_of(comparison c);
std::string_view name_of(unit u);
std::string_view name_of(device_kind k);
std::string_view name_of(part_kind k);
std::string_view name_of(ordering o);
std::string_view name_of(spilling s);
std::string_view name_of(verb v);
std::string_view name_of(rule_mode m);

// The value of a word, if it is one of the list.
template <class T>
std::optional<T> find_word(std::span<const word<T>> list, std::string_view name) {
  for (const word<T>& w : list) {
    if (w.name == name) return w.value;
  }
  return std::nullopt;
}

template <class T>
std::vector<std::string_view> names_of(std::span<const word<T>> list) {
  std::vector<std::string_view> names;
  for (const word<T>& w : list) names.push_back(w.name);
  return names;
}

const metric_entry* find_metric(std::string_view name);
std::vector<std::string_view> metric_names();

// Whether a metric of that unit can be compared so.
bool suits(comparison c, unit u);

// Whether objects of `judged` have a metric of that entry.
bool offers(scope judged, const metric_entry& m);

}  // namespace terrane::policies
