#include "policies/vocabulary/table.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

constexpr word<scope> scope_table[] = {
    {scope::gpu, "gpu", "each GPU"},
    {scope::cpu, "cpu", "the CPU's device"},
    {scope::device, "device", "each device"},
    {scope::session, "session", "each session"},
    {scope::tenant, "tenant", "each user who has sessions"},
    {scope::part, "part", "each part of the model"},
    {scope::host, "host", "the host as a whole"},
};

constexpr word<comparison> comparison_table[] = {
    {comparison::above, "above", "more than the limit"},
    {comparison::below, "below", "less than the limit"},
    {comparison::is, "is", "true or false"},
    {comparison::within, "within", "in a range, which may pass midnight or Sunday"},
    {comparison::outside, "outside", "not in a range"},
};

constexpr word<unit> measure_table[] = {
    {unit::ratio, "ratio", "a share of a whole, from 0 to 1"},
    {unit::bytes, "bytes", "memory"},
    {unit::celsius, "celsius", "a temperature in degrees Celsius"},
    {unit::seconds, "seconds", "a time"},
    {unit::tokens, "tokens", "tokens of a context"},
    {unit::percent, "percent", "a share of time, from 0 to 100"},
    {unit::watts, "watts", "electric power"},
    {unit::count, "count", "a number of things"},
    {unit::truth, "truth", "true or false; in Lua a boolean"},
    {unit::time_of_day, "time_of_day", "a local time; in Lua seconds since midnight"},
    {unit::weekday, "weekday", "a day from Mon to Sun; in Lua 1 to 7"},
};

constexpr word<device_kind> device_kind_table[] = {
    {device_kind::cpu, "cpu", "the processor, with the host's memory"},
    {device_kind::gpu, "gpu", "a GPU"},
    {device_kind::other, "other", "anything else"},
};

constexpr word<part_kind> part_kind_table[] = {
    {part_kind::embedding, "embedding", "the embedding"},
    {part_kind::attention, "attention", "a layer's attention, with its KV cache"},
    {part_kind::feed_forward, "feed_forward", "a layer's feed-forward part"},
    {part_kind::expert, "expert", "one expert of a layer"},
    {part_kind::head, "head", "the head"},
};

constexpr word<selection> selection_table[] = {
    {selection::layers, "layers", "attention and feed-forward parts, experts included"},
    {selection::attention, "attention", "attention parts, with their KV cache"},
    {selection::feed_forward, "feed_forward", "feed-forward parts"},
    {selection::experts, "experts", "the experts of a mixture"},
    {selection::parts, "parts", "every part"},
    {selection::head, "head", "the head"},
    {selection::embedding, "embedding", "the embedding"},
};

constexpr word<ordering> ordering_table[] = {
    {ordering::top_down, "top_down", "from the head down"},
    {ordering::bottom_up, "bottom_up", "from the embedding up"},
    {ordering::largest_first, "largest_first", "most bytes first"},
    {ordering::smallest_first, "smallest_first", "fewest bytes first"},
    {ordering::longest_idle, "longest_idle", "sessions that have been idle longest first"},
    {ordering::best, "best", "most relief, or gain, for the measured cost first"},
};

constexpr word<spilling> spilling_table[] = {
    {spilling::kv, "kv", "KV caches of sessions"},
    {spilling::cheaper, "cheaper", "KV or weights, whichever adds less to a token, as measured"},
};

constexpr word<extent> extent_table[] = {
    {extent::leave, "leave", "until the leave level is reached"},
    {extent::all, "all", "everything selected"},
};

constexpr word<target_kind> target_table[] = {
    {target_kind::cpu, "cpu", "the CPU's device"},
    {target_kind::cpu, "host", "the CPU's device"},
    {target_kind::most_free, "most_free", "the device with most room"},
    {target_kind::most_free_gpu, "most_free_gpu", "the GPU with most room"},
    {target_kind::coolest, "coolest", "the coolest device with room"},
    {target_kind::itself, "itself", "the device that the policy is judged for"},
};

constexpr std::string_view driver_table[] = {"cuda", "vulkan"};

constexpr word<verb> verb_table[] = {
    {verb::move, "move", "move parts to another device"},
    {verb::spill, "spill", "move KV away from where it is, or what is cheaper to have away"},
    {verb::fetch, "fetch", "bring a session's KV cache home"},
    {verb::restore, "restore", "bring home what this policy moved"},
    {verb::decline, "decline", "do nothing, and say why"},
    {verb::yield, "yield", "give all memory of a device back and keep away from it"},
};

constexpr word<undo_kind> undo_table[] = {
    {undo_kind::none, "none", "what was moved stays where it is"},
    {undo_kind::restore, "restore", "what this policy moved goes home"},
};

constexpr word<rule_mode> mode_table[] = {
    {rule_mode::enforce, "enforce", "plan and act"},
    {rule_mode::shadow, "shadow", "plan, and only say what would be done"},
};

constexpr argument_kind nothing = argument_kind::none;
constexpr argument_kind number = argument_kind::number;
constexpr argument_kind text = argument_kind::name;

constexpr selector_entry selector_table[] = {
    {list_kind::parts, selector::movable, "movable", nothing,
     "those that can be moved and are not pinned", "gpu:parts():movable()"},
    {list_kind::parts, selector::top_down, "top_down", nothing, "from the head down",
     "gpu:parts():top_down()"},
    {list_kind::parts, selector::bottom_up, "bottom_up", nothing, "from the embedding up",
     "gpu:parts():bottom_up()"},
    {list_kind::parts, selector::largest_first, "largest_first", nothing, "most bytes first",
     "gpu:parts():largest_first()"},
    {list_kind::parts, selector::smallest_first, "smallest_first", nothing, "fewest bytes first",
     "gpu:parts():smallest_first()"},
    {list_kind::parts, selector::of_kind, "of_kind", text, "those of one kind",
     "parts():of_kind(\"expert\")"},
    {list_kind::parts, selector::matching, "matching", text,
     "those named like a pattern with * and ?", "parts():matching(\"layer.1?.ffn\")"},
    {list_kind::parts, selector::on, "on", text, "those on one device", "parts():on(\"cpu\")"},
    {list_kind::parts, selector::until_bytes, "until_bytes", number,
     "as many as free a number of bytes; a matrix that parts share becomes free with the last",
     "gpu:parts():top_down():until_bytes(GiB(2))"},
    {list_kind::parts, selector::first, "first", number, "at most so many",
     "gpu:parts():largest_first():first(4)"},
    {list_kind::devices, selector::except, "except", text, "all but one", "devices():except(gpu)"},
    {list_kind::devices, selector::gpus, "gpus", nothing, "those that are GPUs",
     "devices():gpus()"},
    {list_kind::devices, selector::cpus, "cpus", nothing, "those that are the CPU's",
     "devices():cpus()"},
    {list_kind::devices, selector::cooler_than, "cooler_than", number,
     "those known to be below so many degrees Celsius", "devices():cooler_than(75)"},
    {list_kind::devices, selector::with_room, "with_room", number, "those with so many bytes free",
     "devices():with_room(GiB(4))"},
    {list_kind::devices, selector::most_free, "most_free", nothing,
     "the one with most room, or nil", "devices():gpus():most_free()", true},
    {list_kind::devices, selector::coolest, "coolest", nothing, "the coolest one, or nil",
     "devices():coolest()", true},
    {list_kind::sessions, selector::longest_idle, "longest_idle", nothing, "longest idle first",
     "sessions():longest_idle()"},
    {list_kind::sessions, selector::largest_first, "largest_first", nothing, "most KV bytes first",
     "sessions():largest_first()"},
    {list_kind::sessions, selector::smallest_first, "smallest_first", nothing,
     "fewest KV bytes first", "sessions():smallest_first()"},
    {list_kind::sessions, selector::idle_for, "idle_for", number,
     "those idle for more than so many seconds", "sessions():idle_for(60)"},
    {list_kind::sessions, selector::on, "on", text, "those with KV on one device",
     "sessions():on(gpu)"},
    {list_kind::sessions, selector::of_tenant, "of_tenant", text, "those of one user",
     "sessions():of_tenant(\"alice\")"},
    {list_kind::sessions, selector::until_bytes, "until_bytes", number,
     "as many as reach a number of bytes", "sessions():longest_idle():until_bytes(GiB(1))"},
    {list_kind::sessions, selector::first, "first", number, "at most so many",
     "sessions():largest_first():first(1)"},
    {list_kind::tenants, selector::largest_first, "largest_first", nothing, "most KV bytes first",
     "tenants():largest_first()"},
    {list_kind::tenants, selector::first, "first", number, "at most so many", "tenants():first(1)"},
};

constexpr double kib = 1024;

constexpr unit_entry unit_table[] = {
    {"%", unit::ratio, 0.01},
    {"%", unit::percent, 1},
    {"B", unit::bytes, 1},
    {"KiB", unit::bytes, kib},
    {"MiB", unit::bytes, kib* kib},
    {"GiB", unit::bytes, kib* kib* kib},
    {"TiB", unit::bytes, kib* kib* kib* kib},
    {"kB", unit::bytes, 1e3},
    {"MB", unit::bytes, 1e6},
    {"GB", unit::bytes, 1e9},
    {"TB", unit::bytes, 1e12},
    {"C", unit::celsius, 1},
    {"ms", unit::seconds, 0.001},
    {"s", unit::seconds, 1},
    {"m", unit::seconds, 60},
    {"min", unit::seconds, 60},
    {"h", unit::seconds, 3600},
    {"tokens", unit::tokens, 1},
    {"W", unit::watts, 1},
    {"kW", unit::watts, 1000},
};

template <class T>
std::string_view name_in(std::span<const word<T>> list, T value) {
  return std::ranges::find(list, value, &word<T>::value)->name;
}

}  // namespace

const std::string& object_name(const object_ref& object) {
  static const std::string host = "host";
  if (object.device != nullptr) return object.device->name;
  if (object.session != nullptr) return object.session->id;
  if (object.part != nullptr) return object.part->name;
  if (object.tenant != nullptr) return object.tenant->name;
  return host;
}

std::span<const word<scope>> scopes() { return scope_table; }
std::span<const word<comparison>> comparisons() { return comparison_table; }
std::span<const word<unit>> measures() { return measure_table; }
std::span<const word<device_kind>> device_kinds() { return device_kind_table; }
std::span<const word<part_kind>> part_kinds() { return part_kind_table; }
std::span<const word<selection>> selections() { return selection_table; }
std::span<const word<ordering>> orderings() { return ordering_table; }
std::span<const word<spilling>> spillings() { return spilling_table; }
std::span<const word<extent>> extents() { return extent_table; }
std::span<const word<target_kind>> targets() { return target_table; }
std::span<const word<verb>> verbs() { return verb_table; }
std::span<const std::string_view> drivers() { return driver_table; }

std::string device_pattern(std::string name) {
  if (std::ranges::find(driver_table, name) != std::end(driver_table)) name += ":*";
  return name;
}

std::span<const word<rule_mode>> modes() { return mode_table; }
std::span<const word<undo_kind>> undos() { return undo_table; }
std::span<const unit_entry> units() { return unit_table; }
bool has_function(const unit_entry& u) { return u.measured_in == unit::bytes && u.symbol != "B"; }

std::span<const selector_entry> selectors() { return selector_table; }

const selector_entry* find_selector(list_kind of, std::string_view name) {
  for (const selector_entry& e : selector_table) {
    if (e.of == of && e.name == name) return &e;
  }
  return nullptr;
}

std::vector<std::string_view> selector_names(list_kind of) {
  std::vector<std::string_view> names;
  for (const selector_entry& e : selector_table) {
    if (e.of == of) names.push_back(e.name);
  }
  return names;
}

std::string_view name_of(scope s) { return name_in(scopes(), s); }
std::string_view name_of(comparison c) { return name_in(comparisons(), c); }
std::string_view name_of(unit u) { return name_in(measures(), u); }
std::string_view name_of(device_kind k) { return name_in(device_kinds(), k); }
std::string_view name_of(part_kind k) { return name_in(part_kinds(), k); }
std::string_view name_of(ordering o) { return name_in(orderings(), o); }
std::string_view name_of(spilling s) { return name_in(spillings(), s); }
std::string_view name_of(verb v) { return name_in(verbs(), v); }
std::string_view name_of(rule_mode m) { return name_in(modes(), m); }

bool suits(comparison c, unit u) {
  const bool ranged = u == unit::time_of_day || u == unit::weekday;
  switch (c) {
    case comparison::above:
    case comparison::below:
      return !ranged && u != unit::truth;
    case comparison::is:
      return u == unit::truth;
    case comparison::within:
    case comparison::outside:
      return ranged;
  }
  return false;
}

}  // namespace terrane::policies
