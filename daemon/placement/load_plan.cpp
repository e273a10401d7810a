#include "daemon/placement/load_plan.hpp"

#include <algorithm>
#include <map>

#include "daemon/placement/shared_matrices.hpp"
#include "engine/device/cpu/host_memory.hpp"
#include "engine/placement/scratch.hpp"
#include "policies/placement/pools.hpp"

namespace terrane::daemon {

namespace {

namespace placement = policies::placement;

// What a driver needs for itself when a device is put to use: command lists, its own tables.
constexpr std::uint64_t driver_bytes = std::uint64_t{32} << 20;
// Copies between devices pass through this process, and somebody has to wake up.
constexpr double hop_s = 10e-6;
// An embedding reads one row.
constexpr double embedding_share = 0.05;

std::uint64_t granule_bytes() { return 256; }

placement::part_demand demand_of(const engine::model& of, engine::part_index p,
                                 const shared_matrix& shared) {
  const engine::model_part& from = of.parts()[p];
  placement::part_demand d;
  d.name = from.name;
  d.weight_bytes = of.part_bytes(p);
  if (from.kind == engine::part_kind::attention) d.kv_page_bytes = engine::kv_page_bytes(of);
  d.shared = shared.number;
  d.shared_bytes = shared.bytes;
  return d;
}

// How much of a feed-forward's time a part takes.
double share_of_time(const engine::model_part& part, const placement::part_demand& d,
                     const engine::engine_options& options, std::uint64_t feed_forward_bytes) {
  if (part.kind == engine::part_kind::embedding) return embedding_share;
  double bytes = static_cast<double>(d.weight_bytes);
  bytes +=
      static_cast<double>(d.kv_page_bytes) * options.context_tokens / 2 / kernels::page_positions;
  return bytes / static_cast<double>(std::max<std::uint64_t>(1, feed_forward_bytes));
}

void add_links(const std::vector<device_facts>& devices, placement::request& to) {
  const auto write = [](const device_facts& d) {
    return std::max(d.timing.write_bytes_per_s, 1e6);
  };
  for (std::uint32_t a = 0; a < devices.size(); a++)
    for (std::uint32_t b = 0; b < devices.size(); b++) {
      if (a == b) continue;
      const double bytes_per_s = 1 / (1 / write(devices[a]) + 1 / write(devices[b]));
      to.links.push_back({a, b, {hop_s + devices[b].timing.submit_s, bytes_per_s}});
    }
}

std::uint64_t scratch_of(const std::vector<std::unique_ptr<engine::device>>& devices,
                         std::size_t which, const engine::model& of,
                         const engine::engine_options& options) {
  std::vector<const engine::device*> all;
  for (const auto& d : devices) all.push_back(d.get());
  engine::device& on = *devices[which];
  return engine::scratch_bytes(on, all, of, options) + (on.info().host_memory ? 0 : driver_bytes);
}

std::vector<placement::memory_source> sources_of(const std::vector<device_facts>& devices) {
  std::vector<placement::memory_source> out;
  for (const device_facts& d : devices)
    out.push_back({d.card, d.host_memory, d.budget_bytes, d.card_bytes});
  return out;
}

}  // namespace

std::uint64_t available_host_bytes() {
  return engine::read_host_memory().value_or(engine::host_memory()).available_bytes;
}

std::vector<device_facts> facts_of(const std::vector<std::unique_ptr<engine::device>>& devices,
                                   const std::vector<device_config>& configured,
                                   const engine::model& of, const engine::engine_options& options) {
  std::vector<device_facts> out;
  const std::uint64_t host = available_host_bytes();
  for (std::size_t d = 0; d < devices.size(); d++) {
    engine::device& from = *devices[d];
    device_facts f;
    f.name = from.info().name;
    f.reserve_bytes = configured[d].reserve_bytes;
    f.rank = configured[d].rank;
    f.host_memory = from.info().host_memory;
    f.scratch_bytes = scratch_of(devices, d, of, options);
    const std::uint64_t limit = from.limit_bytes(), driver = from.driver_used_bytes();
    // Under a budget the device is as large as the budget, as telemetry has it.
    if (from.budget_bytes() == 0) f.others_bytes = std::min(limit, driver);
    f.budget_bytes = limit - f.others_bytes;
    f.card = from.info().card;
    const std::uint64_t whole = from.info().memory_bytes;
    f.card_bytes = whole > driver ? whole - driver : 0;
    if (f.host_memory && host != 0 && host < f.budget_bytes) {
      f.others_bytes += f.budget_bytes - host;
      f.budget_bytes = host;
    }
    out.push_back(std::move(f));
  }
  return out;
}

std::vector<device_facts> look_at(const std::vector<std::unique_ptr<engine::device>>& devices,
                                  const std::vector<device_config>& configured,
                                  const engine::model& of, const engine::engine_options& options) {
  std::vector<device_facts> out = facts_of(devices, configured, of, options);
  for (std::size_t d = 0; d < devices.size(); d++) {
    result<engine::part_timing> timed = engine::time_parts(*devices[d], of);
    if (timed)
      out[d].timing = *timed;
    else
      out[d].left_out = "its speed could not be measured: " + timed.error().message;
  }
  return out;
}

placement::request make_request(const engine::model& of, const std::vector<device_facts>& devices,
                                const engine::engine_options& options, std::uint64_t host_bytes) {
  placement::request r;
  r.context_tokens = options.context_tokens;
  r.sessions = options.sessions;
  r.page_tokens = kernels::page_positions;
  r.pages_together = engine::kv_pages_together();
  r.granule_bytes = granule_bytes();
  r.activation_bytes = std::uint64_t{of.config().hidden} * sizeof(float);
  r.speeds = static_cast<std::uint32_t>(devices.size());
  const std::vector<shared_matrix> shared = shared_matrices(of);
  // Parts alike (kind and bytes) are one row of times.
  std::map<std::pair<engine::part_kind, std::uint64_t>, std::uint32_t> works;
  for (engine::part_index p = 0; p < of.parts().size(); p++) {
    placement::part_demand d = demand_of(of, p, shared[p]);
    const engine::model_part& part = of.parts()[p];
    const auto [at, fresh] =
        works.try_emplace({part.kind, d.weight_bytes}, static_cast<std::uint32_t>(works.size()));
    d.work = at->second;
    if (fresh)
      for (const device_facts& f : devices)
        r.seconds.push_back(f.timing.feed_forward_s *
                            share_of_time(part, d, options, f.timing.feed_forward_bytes));
    r.parts.push_back(std::move(d));
  }
  for (std::uint32_t d = 0; d < devices.size(); d++) {
    const device_facts& from = devices[d];
    r.devices.push_back({from.name, d, from.budget_bytes, from.reserve_bytes, from.scratch_bytes,
                         from.others_bytes, from.rank, 0, from.left_out});
  }
  add_links(devices, r);
  r.pools = placement::make_pools(sources_of(devices), host_bytes);
  return r;
}

result<load_plan> plan_load(const engine::model& of, const std::vector<device_facts>& devices,
                            const engine::engine_options& options, std::uint64_t host_bytes) {
  load_plan out{make_request(of, devices, options, host_bytes), {}};
  auto answer = placement::plan(out.asked);
  if (!answer)
    return fail(error_code::no_room,
                "no automatic placement: " + answer.error().message +
                    ". `terraned --fit` says more, and with which context it fits",
                "start_on");
  out.answer = std::move(*answer);
  return out;
}

std::function<void(placement::request&)> at_context(
    const std::vector<std::unique_ptr<engine::device>>& devices, const engine::model& of,
    const engine::engine_options& options) {
  return [&devices, &of, other = options](placement::request& r) mutable {
    other.context_tokens = r.context_tokens;
    for (std::size_t d = 0; d < devices.size(); d++)
      r.devices[d].fee_bytes = scratch_of(devices, d, of, other);
  };
}

load_facts facts_of(const load_plan& planned) {
  const placement::request& r = planned.asked;
  load_facts out;
  for (const placement::device_supply& d : r.devices)
    out.devices.push_back({d.fee_bytes, 0, d.rank});
  for (const placement::link_between& l : r.links) {
    double& hop_ms = out.devices[l.to].hop_ms;
    hop_ms = std::max(hop_ms, l.by.seconds(r.activation_bytes) * 1000);
  }
  for (std::uint32_t p = 0; p < r.parts.size(); p++)
    out.kv_most_bytes.push_back(placement::kv_bytes(r, p));
  out.first_times = first_times(planned);
  return out;
}

std::vector<first_part_time> first_times(const load_plan& planned) {
  const placement::request& r = planned.asked;
  std::vector<first_part_time> out;
  for (std::uint32_t p = 0; p < r.parts.size(); p++)
    for (std::uint32_t d = 0; d < r.devices.size(); d++)
      out.push_back({p, d, r.seconds_of(p, d) * 1000});
  return out;
}

}  // namespace terrane::daemon
