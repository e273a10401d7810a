#include "policies/vocabulary/table.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

// A value made of two is as old as the older one; its source is that of the one that changes.
reading joined(double value, const reading& changing, const reading& other) {
  if (!changing.present() || !other.present()) return {};
  return {value, std::min(changing.sampled_ms, other.sampled_ms),
          std::max(changing.period_ms, other.period_ms), changing.source};
}

reading used_ratio(const reading& used, const reading& total) {
  return total.value > 0 ? joined(used.value / total.value, used, total) : reading{};
}

// What the daemon counts itself is as fresh as the snapshot.
reading counted(const object_ref& o, double value) { return {value, o.now->time_ms, 1000}; }

double session_kv_bytes(const session_state& s) {
  double sum = 0;
  for (const kv_residency& r : s.kv) sum += static_cast<double>(r.bytes);
  return sum;
}

reading host_used_ratio(const host_state& h) {
  const double total = h.memory_total.value;
  const reading used = joined(total - h.memory_available.value, h.memory_available, h.memory_total);
  return used_ratio(used, h.memory_total);
}

reading part_age(const object_ref& o) {
  if (o.part->moved_ms == reading::never) return {};
  return counted(o, static_cast<double>(o.now->time_ms - o.part->moved_ms) / 1000);
}

using ref = const object_ref&;

constexpr metric_entry metric_table[] = {
    {metric_id::vram_used_ratio, "vram.used_ratio", scope::device, unit::ratio,
     "share of the device's memory in use by everyone",
     [](ref o) { return used_ratio(o.device->vram_used, o.device->vram_total); },
     [](ref o, double limit) {
       return o.device->vram_used.value - limit * o.device->vram_total.value;
     }},
    {metric_id::vram_used, "vram.used", scope::device, unit::bytes,
     "the device's memory in use by everyone", [](ref o) { return o.device->vram_used; },
     [](ref o, double limit) { return o.device->vram_used.value - limit; }},
    {metric_id::vram_free, "vram.free", scope::device, unit::bytes,
     "what could still be allocated on the device", [](ref o) { return free_bytes(*o.device); },
     [](ref o, double limit) { return limit - free_bytes(*o.device).value; }},
    {metric_id::vram_total, "vram.total", scope::device, unit::bytes, "the device's memory",
     [](ref o) { return o.device->vram_total; }, nullptr},
    {metric_id::vram_ours, "vram.ours", scope::device, unit::bytes,
     "the device's memory in use by this daemon", [](ref o) { return o.device->vram_ours; },
     [](ref o, double limit) { return o.device->vram_ours.value - limit; }},
    {metric_id::temp_c, "temp_c", scope::device, unit::celsius, "the device's temperature",
     [](ref o) { return o.device->temp_c; }, nullptr},
    {metric_id::context_tokens, "context.tokens", scope::session, unit::tokens,
     "tokens in the session's context",
     [](ref o) { return counted(o, static_cast<double>(o.session->context_tokens)); }, nullptr},
    {metric_id::idle_s, "idle_s", scope::session, unit::seconds,
     "time since the session's last token", [](ref o) { return counted(o, o.session->idle_s); },
     nullptr},
    {metric_id::kv_bytes, "kv.bytes", scope::session, unit::bytes, "the session's KV cache",
     [](ref o) { return counted(o, session_kv_bytes(*o.session)); },
     [](ref o, double limit) { return session_kv_bytes(*o.session) - limit; }},
    {metric_id::part_bytes, "part.bytes", scope::part, unit::bytes, "the part's weights",
     [](ref o) { return counted(o, static_cast<double>(o.part->weight_bytes)); }, nullptr},
    {metric_id::part_kv_bytes, "part.kv_bytes", scope::part, unit::bytes,
     "the part's KV cache on its device",
     [](ref o) { return counted(o, static_cast<double>(o.part->kv_bytes)); }, nullptr},
    {metric_id::part_age_s, "part.age_s", scope::part, unit::seconds,
     "time since the part's last move", part_age, nullptr},
    {metric_id::host_memory_used_ratio, "host.memory_used_ratio", scope::host, unit::ratio,
     "share of the host's memory in use", [](ref o) { return host_used_ratio(o.now->host); },
     [](ref o, double limit) {
       const host_state& h = o.now->host;
       return (1 - limit) * h.memory_total.value - h.memory_available.value;
     }},
    {metric_id::host_memory_available, "host.memory_available", scope::host, unit::bytes,
     "the host's memory that could still be used",
     [](ref o) { return o.now->host.memory_available; },
     [](ref o, double limit) { return limit - o.now->host.memory_available.value; }},
    {metric_id::host_memory_total, "host.memory_total", scope::host, unit::bytes,
     "the host's memory", [](ref o) { return o.now->host.memory_total; }, nullptr},
    {metric_id::host_pressure, "host.pressure", scope::host, unit::percent,
     "time that tasks waited for memory, average of 10 s",
     [](ref o) { return o.now->host.pressure_some_avg10; }, nullptr},
};

constexpr word<scope> scope_table[] = {
    {scope::gpu, "gpu", "each GPU"},
    {scope::cpu, "cpu", "the CPU's device"},
    {scope::device, "device", "each device"},
    {scope::session, "session", "each session"},
    {scope::part, "part", "each part of the model"},
    {scope::host, "host", "the host as a whole"},
};

constexpr word<selection> selection_table[] = {
    {selection::layers, "layers", "attention and feed-forward parts"},
    {selection::attention, "attention", "attention parts, with their KV cache"},
    {selection::feed_forward, "feed_forward", "feed-forward parts"},
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

constexpr word<verb> verb_table[] = {
    {verb::move, "move", "move parts to another device"},
    {verb::spill, "spill", "move a session's KV cache away from its home"},
    {verb::fetch, "fetch", "bring a session's KV cache home"},
    {verb::restore, "restore", "bring home what this policy moved"},
    {verb::decline, "decline", "do nothing, and say why"},
};

constexpr word<rule_mode> mode_table[] = {
    {rule_mode::enforce, "enforce", "plan and act"},
    {rule_mode::shadow, "shadow", "plan, and only say what would be done"},
};

constexpr selector_entry selector_table[] = {
    {list_kind::parts, selector::movable, "movable", "that can be moved and are not pinned"},
    {list_kind::parts, selector::top_down, "top_down", "from the head down"},
    {list_kind::parts, selector::bottom_up, "bottom_up", "from the embedding up"},
    {list_kind::parts, selector::largest_first, "largest_first", "most bytes first"},
    {list_kind::parts, selector::smallest_first, "smallest_first", "fewest bytes first"},
    {list_kind::parts, selector::of_kind, "of_kind", "of one kind, such as \"feed_forward\""},
    {list_kind::parts, selector::matching, "matching", "named like a pattern with * and ?"},
    {list_kind::parts, selector::on, "on", "on one device"},
    {list_kind::parts, selector::until_bytes, "until_bytes", "as many as reach a number of bytes"},
    {list_kind::parts, selector::first, "first", "at most so many"},
    {list_kind::devices, selector::except, "except", "but for one"},
    {list_kind::devices, selector::gpus, "gpus", "that are GPUs"},
    {list_kind::devices, selector::cpus, "cpus", "that are the CPU's"},
    {list_kind::devices, selector::cooler_than, "cooler_than", "below so many degrees Celsius"},
    {list_kind::devices, selector::with_room, "with_room", "with so many bytes free"},
    {list_kind::devices, selector::most_free, "most_free", "the one with most room, or nil"},
    {list_kind::devices, selector::coolest, "coolest", "the coolest one, or nil"},
    {list_kind::sessions, selector::longest_idle, "longest_idle", "longest idle first"},
    {list_kind::sessions, selector::largest_first, "largest_first", "most KV bytes first"},
    {list_kind::sessions, selector::smallest_first, "smallest_first", "fewest KV bytes first"},
    {list_kind::sessions, selector::idle_for, "idle_for", "idle for more than so many seconds"},
    {list_kind::sessions, selector::on, "on", "with KV on one device"},
    {list_kind::sessions, selector::until_bytes, "until_bytes",
     "as many as reach a number of bytes"},
    {list_kind::sessions, selector::first, "first", "at most so many"},
};

constexpr double kib = 1024;

constexpr unit_entry unit_table[] = {
    {"%", unit::ratio, 0.01},       {"%", unit::percent, 1},
    {"B", unit::bytes, 1},          {"KiB", unit::bytes, kib},
    {"MiB", unit::bytes, kib* kib}, {"GiB", unit::bytes, kib* kib* kib},
    {"kB", unit::bytes, 1e3},       {"MB", unit::bytes, 1e6},
    {"GB", unit::bytes, 1e9},       {"C", unit::celsius, 1},
    {"ms", unit::seconds, 0.001},   {"s", unit::seconds, 1},
    {"m", unit::seconds, 60},       {"min", unit::seconds, 60},
    {"h", unit::seconds, 3600},     {"tokens", unit::tokens, 1},
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
  return host;
}

std::span<const metric_entry> metrics() { return metric_table; }

// The table is in the order of the ids; tests/policies/table_test.cpp checks it.
const metric_entry& metric(metric_id id) { return metric_table[static_cast<std::size_t>(id)]; }

std::span<const word<scope>> scopes() { return scope_table; }
std::span<const word<selection>> selections() { return selection_table; }
std::span<const word<ordering>> orderings() { return ordering_table; }
std::span<const word<extent>> extents() { return extent_table; }
std::span<const word<target_kind>> targets() { return target_table; }
std::span<const word<verb>> verbs() { return verb_table; }
std::span<const word<rule_mode>> modes() { return mode_table; }
std::span<const unit_entry> units() { return unit_table; }

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
std::string_view name_of(ordering o) { return name_in(orderings(), o); }
std::string_view name_of(verb v) { return name_in(verbs(), v); }
std::string_view name_of(rule_mode m) { return name_in(modes(), m); }

const metric_entry* find_metric(std::string_view name) {
  const auto at = std::ranges::find(metric_table, name, &metric_entry::name);
  return at == std::end(metric_table) ? nullptr : &*at;
}

std::vector<std::string_view> metric_names() {
  std::vector<std::string_view> names;
  for (const metric_entry& m : metric_table) names.push_back(m.name);
  return names;
}

bool offers(scope judged, const metric_entry& m) {
  if (m.belongs_to == scope::host) return true;
  const bool is_device = judged == scope::gpu || judged == scope::cpu;
  return m.belongs_to == (is_device ? scope::device : judged);
}

}  // namespace terrane::policies
