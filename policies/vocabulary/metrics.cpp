// The rows of the vocabulary's table that are metrics. A metric of something new to measure is a
// field of the snapshot and a row here; readings by hand and both languages follow.
#include <algorithm>
#include <limits>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies {
namespace {

// A value made of two is as old as the older one; its source is that of the one that changes.
reading joined(double value, const reading& changing, const reading& other) {
  if (!changing.present() || !other.present()) return {};
  return {value, std::min(changing.sampled_ms, other.sampled_ms),
          std::max(changing.period_ms, other.period_ms), changing.source};
}

reading share(const reading& part, const reading& whole) {
  return whole.value > 0 ? joined(part.value / whole.value, part, whole) : reading{};
}

// What the daemon counts itself is as fresh as the snapshot.
reading counted(const object_ref& o, double value) { return {value, o.now->time_ms, 1000}; }
reading counted(const object_ref& o, std::uint64_t value) {
  return counted(o, static_cast<double>(value));
}

std::uint64_t bytes_of(const std::vector<kv_residency>& kv) {
  std::uint64_t sum = 0;
  for (const kv_residency& r : kv) sum += r.bytes;
  return sum;
}

double gpu_bytes(const object_ref& o, const std::vector<kv_residency>& kv) {
  return static_cast<double>(bytes_on_gpus(*o.now, kv));
}

reading context_used_ratio(const object_ref& o) {
  const std::uint64_t most = o.now->model.context_tokens;
  if (most == 0) return {};
  return counted(o, static_cast<double>(o.session->context_tokens) / static_cast<double>(most));
}

reading host_used_ratio(const host_state& h) {
  const double total = h.memory_total.value;
  const reading used = joined(total - h.memory_available.value, h.memory_available, h.memory_total);
  return share(used, h.memory_total);
}

reading part_age(const object_ref& o) {
  if (o.part->moved_ms == reading::never) return {};
  return counted(o, static_cast<double>(o.now->time_ms - o.part->moved_ms) / 1000);
}

reading model_bytes(const object_ref& o) {
  if (o.now->model.weight_bytes == 0) return {};
  return counted(o, o.now->model.weight_bytes);
}

reading model_kv_bytes(const object_ref& o) {
  std::uint64_t sum = 0;
  for (const session_state& s : o.now->sessions) sum += bytes_of(s.kv);
  return counted(o, sum);
}

using ref = const object_ref&;
using bytes_until_limit = double (*)(ref, double);

// A metric that is one field of the snapshot as it was measured.
template <reading device_state::*Field>
constexpr metric_entry measured(metric_id id, std::string_view name, unit u, std::string_view says,
                                std::string_view example, bytes_until_limit until = nullptr) {
  return {id,    name, scope::device, u, says, example, [](ref o) { return o.device->*Field; },
          until, Field};
}
template <reading host_state::*Field>
constexpr metric_entry measured(metric_id id, std::string_view name, unit u, std::string_view says,
                                std::string_view example, bytes_until_limit until = nullptr) {
  return {id,    name,    scope::host, u, says, example, [](ref o) { return o.now->host.*Field; },
          until, nullptr, Field};
}

constexpr metric_entry short_of(resource what, metric_entry m) {
  m.short_of = what;
  return m;
}

// A share of what is only a mark: it may be passed.
constexpr metric_entry beyond_the_whole(metric_entry m) {
  m.most = std::numeric_limits<double>::infinity();
  return m;
}

constexpr metric_entry
    metric_table[] =
        {
            short_of(resource::memory,
                     {metric_id::vram_used_ratio, "vram.used_ratio", scope::device, unit::ratio,
                      "share of the device's memory in use by everyone", "92%",
                      [](ref o) { return share(o.device->vram_used, o.device->vram_total); },
                      [](ref o, double limit) {
                        return o.device->vram_used.value - limit * o.device->vram_total.value;
                      }}),
            short_of(resource::memory,
                     measured<&device_state::vram_used>(
                         metric_id::vram_used, "vram.used", unit::bytes,
                         "the device's memory in use by everyone", "7GiB",
                         [](ref o, double limit) { return o.device->vram_used.value - limit; })),
            short_of(resource::memory,
                     {metric_id::vram_free, "vram.free", scope::device, unit::bytes,
                      "what could still be allocated on the device", "1GiB",
                      [](ref o) { return free_bytes(*o.device); },
                      [](ref o, double limit) { return limit - free_bytes(*o.device).value; },
                      &device_state::vram_free}),
            measured<&device_state::vram_total>(metric_id::vram_total, "vram.total", unit::bytes,
                                                "the device's memory", "8GiB"),
            short_of(resource::memory,
                     measured<&device_state::vram_ours>(
                         metric_id::vram_ours, "vram.ours", unit::bytes,
                         "the device's memory in use by this daemon", "6GiB",
                         [](ref o, double limit) { return o.device->vram_ours.value - limit; })),
            measured<&device_state::vram_others>(metric_id::vram_others, "vram.others", unit::bytes,
                                                 "the card's memory in use by other programs",
                                                 "2GiB"),
            short_of(resource::memory,
                     {metric_id::yield_asked, "yield.asked", scope::device, unit::truth,
                      "whether someone wants the device's memory back", "true",
                      [](ref o) {
                        return reading{find_yield(*o.now, o.device->name) != nullptr ? 1.0 : 0.0,
                                       o.now->time_ms};
                      }}),
            short_of(resource::work,
                     measured<&device_state::temp_c>(metric_id::temp_c, "temp_c", unit::celsius,
                                                     "the device's temperature", "85C")),
            measured<&device_state::temp_limit_c>(
                metric_id::temp_limit_c, "temp_limit_c", unit::celsius,
                "the temperature at which the device slows itself down", "90C"),
            measured<&device_state::temp_shutdown_c>(
                metric_id::temp_shutdown_c, "temp_shutdown_c", unit::celsius,
                "the temperature at which the device switches itself off", "95C"),
            short_of(resource::work, {metric_id::temp_margin_c, "temp_margin_c", scope::device,
                                      unit::celsius,
                                      "degrees left until the device slows itself down", "5C",
                                      [](ref o) {
                                        return joined(
                                            o.device->temp_limit_c.value - o.device->temp_c.value,
                                            o.device->temp_c, o.device->temp_limit_c);
                                      }}),
            short_of(resource::work,
                     measured<&device_state::power_w>(metric_id::power_w, "power_w", unit::watts,
                                                      "the power the device draws", "250W")),
            measured<&device_state::power_limit_w>(metric_id::power_limit_w, "power_limit_w",
                                                   unit::watts, "the power the device may draw",
                                                   "300W"),
            short_of(
                resource::work,
                // Firmware holds the draw to its limit on average only.
                beyond_the_whole(
                    {metric_id::power_ratio, "power_ratio", scope::device, unit::ratio,
                     "share of its power limit that the device draws", "95%",
                     [](ref o) { return share(o.device->power_w, o.device->power_limit_w); }})),
            measured<&device_state::utilisation>(
                metric_id::utilisation, "utilisation", unit::ratio,
                "share of time in which the device computed, for anyone", "80%"),
            short_of(resource::work, measured<&device_state::throttled_by_heat>(
                                         metric_id::throttle_heat, "throttle.heat", unit::truth,
                                         "whether heat makes the device slow down", "true")),
            short_of(resource::work,
                     measured<&device_state::throttled_by_power>(
                         metric_id::throttle_power, "throttle.power", unit::truth,
                         "whether its power limit or supply makes the device slow down", "true")),
            // Drivers report some fans above what they call full speed.
            beyond_the_whole(measured<&device_state::fan_ratio>(
                metric_id::fan_ratio, "fan_ratio", unit::ratio,
                "share of full speed at which the device's fan turns", "90%")),
            {metric_id::context_tokens, "context.tokens", scope::session, unit::tokens,
             "tokens in the session's context", "8192",
             [](ref o) { return counted(o, o.session->context_tokens); }},
            {metric_id::context_used_ratio, "context.used_ratio", scope::session, unit::ratio,
             "share of the longest context in use by the session", "75%", context_used_ratio},
            {metric_id::idle_s, "idle_s", scope::session, unit::seconds,
             "time since the session's last token", "45s",
             [](ref o) { return counted(o, o.session->idle_s); }},
            {metric_id::kv_bytes, "kv.bytes", scope::session, unit::bytes,
             "the session's KV cache, wherever it is, with what its reply has reserved", "1GiB",
             [](ref o) { return counted(o, bytes_of(o.session->kv)); },
             [](ref o, double limit) {
               return static_cast<double>(bytes_of(o.session->kv)) - limit;
             }},
            {metric_id::kv_gpu_bytes, "kv.gpu_bytes", scope::session, unit::bytes,
             "the session's KV cache on GPUs, with what its reply has reserved", "512MiB",
             [](ref o) { return counted(o, gpu_bytes(o, o.session->kv)); },
             [](ref o, double limit) { return gpu_bytes(o, o.session->kv) - limit; }},
            {metric_id::kv_reserved_bytes, "kv.reserved_bytes", scope::session, unit::bytes,
             "of the session's KV cache, what its running reply has reserved and not written yet",
             "512MiB", [](ref o) { return counted(o, empty_bytes(o.session->kv)); }},
            {metric_id::tenant_kv_bytes, "tenant.kv_bytes", scope::tenant, unit::bytes,
             "the KV cache of all sessions of the user, wherever it is, with what is reserved",
             "8GiB", [](ref o) { return counted(o, bytes_of(o.tenant->kv)); },
             [](ref o, double limit) {
               return static_cast<double>(bytes_of(o.tenant->kv)) - limit;
             }},
            {metric_id::tenant_gpu_kv_bytes, "tenant.gpu_kv_bytes", scope::tenant, unit::bytes,
             "the KV cache of all sessions of the user on GPUs, with what is reserved", "4GiB",
             [](ref o) { return counted(o, gpu_bytes(o, o.tenant->kv)); },
             [](ref o, double limit) { return gpu_bytes(o, o.tenant->kv) - limit; }},
            {metric_id::tenant_reserved_bytes, "tenant.reserved_bytes", scope::tenant, unit::bytes,
             "of the user's KV cache, what running replies have reserved and not written yet",
             "1GiB", [](ref o) { return counted(o, empty_bytes(o.tenant->kv)); }},
            {metric_id::tenant_sessions, "tenant.sessions", scope::tenant, unit::count,
             "how many sessions the user has", "8",
             [](ref o) { return counted(o, std::uint64_t{o.tenant->sessions}); }},
            {metric_id::part_bytes, "part.bytes", scope::part, unit::bytes,
             "what moves with the part: its weights and the KV cache beside it", "500MiB",
             [](ref o) { return counted(o, o.part->weight_bytes + o.part->kv_bytes); }},
            {metric_id::part_weight_bytes, "part.weight_bytes", scope::part, unit::bytes,
             "the part's weights", "400MiB",
             [](ref o) { return counted(o, o.part->weight_bytes); }},
            {metric_id::part_kv_bytes, "part.kv_bytes", scope::part, unit::bytes,
             "the part's KV cache on its device", "100MiB",
             [](ref o) { return counted(o, o.part->kv_bytes); }},
            {metric_id::part_age_s, "part.age_s", scope::part, unit::seconds,
             "time since the part's last move; absent when it never moved", "10m", part_age},
            short_of(resource::memory,
                     {metric_id::host_memory_used_ratio, "host.memory_used_ratio", scope::host,
                      unit::ratio, "share of the host's memory in use", "90%",
                      [](ref o) { return host_used_ratio(o.now->host); },
                      [](ref o, double limit) {
                        const host_state& h = o.now->host;
                        return (1 - limit) * h.memory_total.value - h.memory_available.value;
                      }}),
            short_of(resource::memory,
                     measured<&host_state::memory_available>(
                         metric_id::host_memory_available, "host.memory_available", unit::bytes,
                         "the host's memory that could still be used", "4GiB",
                         [](ref o, double limit) {
                           return limit - o.now->host.memory_available.value;
                         })),
            measured<&host_state::memory_total>(metric_id::host_memory_total, "host.memory_total",
                                                unit::bytes, "the host's memory", "32GiB"),
            short_of(resource::memory,
                     measured<&host_state::pressure_some_avg10>(
                         metric_id::host_pressure, "host.pressure", unit::percent,
                         "time in which a task waited for memory, average of 10 s", "20%")),
            measured<&host_state::cpu_pressure>(
                metric_id::host_cpu_pressure, "host.cpu_pressure", unit::percent,
                "time in which a task waited for a processor, average of 10 s", "30%"),
            measured<&host_state::cpu_used_ratio>(
                metric_id::host_cpu_used_ratio, "host.cpu_used_ratio", unit::ratio,
                "share of all processors in use by everyone", "90%"),
            measured<&host_state::cpu_others_ratio>(
                metric_id::host_cpu_others_ratio, "host.cpu_others_ratio", unit::ratio,
                "share of all processors in use by other programs, such as a compiler", "50%"),
            measured<&host_state::time_of_day_s>(metric_id::host_time, "host.time",
                                                 unit::time_of_day, "the local time of day",
                                                 "22:00-07:00"),
            measured<&host_state::weekday>(metric_id::host_weekday, "host.weekday", unit::weekday,
                                           "the local day of the week", "Sat-Sun"),
            measured<&host_state::on_battery>(metric_id::host_on_battery, "host.on_battery",
                                              unit::truth, "whether the host runs on its battery",
                                              "true"),
            measured<&host_state::battery_ratio>(metric_id::host_battery_ratio,
                                                 "host.battery_ratio", unit::ratio,
                                                 "charge of the host's batteries", "30%"),
            {metric_id::model_bytes, "model.bytes", scope::host, unit::bytes,
             "the weights of the loaded model", "8GiB", model_bytes},
            {metric_id::model_kv_bytes, "model.kv_bytes", scope::host, unit::bytes,
             "the KV cache of all sessions together", "4GiB", model_kv_bytes},
            {metric_id::promotion_on, "promotion.on", scope::host, unit::truth,
             "whether parts are promoted into room that is left, as the configuration says", "true",
             [](ref o) {
               return reading{o.now->promotes ? 1.0 : 0.0, o.now->time_ms};
             }},
};

}  // namespace

std::span<const metric_entry> metrics() { return metric_table; }

// The table is in the order of the ids; tests/policies/vocabulary_test.cpp checks it.
const metric_entry& metric(metric_id id) { return metric_table[static_cast<std::size_t>(id)]; }

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
