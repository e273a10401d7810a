// The words of the policy language, in one table: scopes, metrics, selections, orders, targets,
// verbs and units. The YAML loader, the Lua binding, lint and the error hints all read it, so a
// word added here exists in every one of them. Constant data; any thread.
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

// What a policy is judged for, one object at a time (`for_each`).
enum class scope { host, device, gpu, cpu, session, part };

enum class unit { ratio, bytes, celsius, seconds, tokens, percent };

enum class metric_id : std::uint8_t {
  vram_used_ratio,
  vram_used,
  vram_free,
  vram_total,
  vram_ours,
  temp_c,
  context_tokens,
  idle_s,
  kv_bytes,
  part_bytes,
  part_kv_bytes,
  part_age_s,
  host_memory_used_ratio,
  host_memory_available,
  host_memory_total,
  host_pressure,
};

// The one object of a snapshot that a policy is being judged for. The pointers fit its scope; a
// host object has none. Valid as long as the snapshot.
struct object_ref {
  const snapshot* now = nullptr;
  const device_state* device = nullptr;
  const session_state* session = nullptr;
  const part_state* part = nullptr;
};

// The name by which latches and records know an object.
const std::string& object_name(const object_ref& object);

struct metric_entry {
  metric_id id;
  std::string_view
      name;          // in both languages: above("vram.used_ratio", ...), metric: vram.used_ratio
  scope belongs_to;  // host, device, session or part; host metrics may be used for every object
  unit measured_in;
  std::string_view says;  // a phrase for people
  // Its value for an object of its scope.
  reading (*read)(const object_ref& object);
  // How many bytes must leave the object until the metric reaches `limit`; null when no number of
  // bytes brings it there. Negative when it is already beyond.
  double (*bytes_until)(const object_ref& object, double limit);
};

std::span<const metric_entry> metrics();
const metric_entry& metric(metric_id id);

// A word of the language and what it stands for.
template <class T>
struct word {
  T value;
  std::string_view name;
  std::string_view says;
};

// Which parts `do: {move: ...}` is about. Anything else is a pattern over part names with * and ?.
enum class selection { parts, layers, attention, feed_forward, head, embedding, pattern };
// The order in which candidates are taken. The top of a model is its head, the bottom its
// embedding.
enum class ordering { top_down, bottom_up, largest_first, smallest_first, longest_idle };
// How far a plan goes.
enum class extent { all, leave, bytes };
// Whether a policy acts or only says what it would do.
enum class rule_mode { enforce, shadow };
// Where to; anything else is a device's name.
enum class target_kind { cpu, most_free, most_free_gpu, coolest, itself, device };

std::span<const word<scope>> scopes();
std::span<const word<selection>> selections();
std::span<const word<ordering>> orderings();
std::span<const word<extent>> extents();
std::span<const word<target_kind>> targets();
std::span<const word<verb>> verbs();
std::span<const word<rule_mode>> modes();

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
  until_bytes,
  first,
  most_free,
  coolest,
};
enum class list_kind { parts, devices, sessions };

struct selector_entry {
  list_kind of;
  selector id;
  std::string_view name;
  std::string_view says;
};
std::span<const selector_entry> selectors();
const selector_entry* find_selector(list_kind of, std::string_view name);
std::vector<std::string_view> selector_names(list_kind of);

// A suffix of a quantity: "92%", "4GiB", "5s". A Lua chunk has the byte units as functions, GiB(4).
struct unit_entry {
  std::string_view symbol;
  unit measured_in;
  double factor;  // to the unit in which readings are kept: ratio, bytes, celsius, seconds, ...
};
std::span<const unit_entry> units();

std::string_view name_of(scope s);
std::string_view name_of(ordering o);
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

// Whether objects of `judged` have a metric of that entry.
bool offers(scope judged, const metric_entry& m);

}  // namespace terrane::policies
