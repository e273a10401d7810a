#include "policies/placement/of_snapshots.hpp"

#include <algorithm>

#include "policies/placement/pools.hpp"

namespace terrane::policies::placement {
namespace {

std::uint64_t bytes_of(const reading& r) {
  return r.present() && r.value > 0 ? static_cast<std::uint64_t>(r.value) : 0;
}

// What others use of what the device is counted to have. Under a budget it is as large as the
// budget, whatever others use of the rest.
std::uint64_t others_within(const device_state& d) {
  const std::uint64_t others = bytes_of(d.vram_others), used = bytes_of(d.vram_used);
  if (!d.vram_used.present()) return others;
  const std::uint64_t ours = bytes_of(d.vram_ours);
  return std::min(others, used > ours ? used - ours : 0);
}

std::vector<device_supply> devices_of(const snapshot& s) {
  std::vector<device_supply> out;
  for (const device_state& d : s.devices) {
    device_supply to;
    to.name = d.name;
    to.speed = static_cast<std::uint32_t>(out.size());
    const std::uint64_t total = bytes_of(d.vram_total);
    to.others_bytes = others_within(d);
    to.budget_bytes = total > to.others_bytes ? total - to.others_bytes : 0;
    to.reserve_bytes = bytes_of(d.vram_reserved);
    out.push_back(std::move(to));
  }
  return out;
}

// What the host has for this model: what is free, and what the model has of it already.
std::uint64_t host_bytes_of(const snapshot& s) {
  std::uint64_t bytes = bytes_of(s.host.memory_available);
  if (bytes == 0) return 0;
  for (const device_state& d : s.devices)
    if (d.host_memory) bytes += bytes_of(d.vram_ours);
  return bytes;
}

std::vector<pool> pools_of(const snapshot& s, const std::vector<device_supply>& devices) {
  std::vector<memory_source> sources;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const device_state& from = s.devices[d];
    const std::uint64_t others = bytes_of(from.vram_others);
    sources.push_back({from.card, from.host_memory, devices[d].budget_bytes,
                       from.memory_bytes > others ? from.memory_bytes - others : 0});
  }
  return make_pools(sources, host_bytes_of(s));
}

// Each part as it is now, with the KV that it has.
std::vector<part_demand> parts_of(const snapshot& s) {
  std::vector<part_demand> out;
  for (const part_state& p : s.parts) {
    part_demand to;
    to.name = p.name;
    to.work = static_cast<std::uint32_t>(out.size());
    to.weight_bytes = p.weight_bytes + p.kv_bytes;
    out.push_back(std::move(to));
  }
  return out;
}

tl::expected<std::uint32_t, std::string> find(const request& r, const std::string& device) {
  const auto at = std::ranges::find(r.devices, device, &device_supply::name);
  if (at == r.devices.end())
    return tl::unexpected("there is no device '" + device + "' in the first");
  return static_cast<std::uint32_t>(at - r.devices.begin());
}

// Unknown is worse than nothing once a sum is made of it.
void add_times(request& r, const snapshot& s, const placed& from, const placed& to) {
  r.speeds = static_cast<std::uint32_t>(r.devices.size());
  r.seconds.assign(r.parts.size() * r.speeds, 0);
  bool known = true;
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    for (std::uint32_t d = 0; d < r.speeds; ++d)
      r.seconds[p * std::size_t{r.speeds} + d] = measured_ms(s.parts[p], r.devices[d].name) / 1e3;
    known = known && r.seconds_of(p, from[p]) > 0 && r.seconds_of(p, to[p]) > 0;
  }
  if (!known) std::ranges::fill(r.seconds, 0);
  for (std::uint32_t p = 0; p < r.parts.size(); ++p)
    if (from[p] != to[p] && find_link(s, r.devices[from[p]].name, r.devices[to[p]].name) == nullptr)
      return;
  for (const link_state& l : s.links) {
    const auto a = find(r, l.from), b = find(r, l.to);
    if (a && b) r.links.push_back({*a, *b, {0, l.bytes_per_s}});
  }
}

}  // namespace

tl::expected<two_placements, std::string> between(const snapshot& from, const snapshot& to) {
  two_placements out;
  out.asked.devices = devices_of(from);
  out.asked.pools = pools_of(from, out.asked.devices);
  out.asked.parts = parts_of(from);
  for (const part_state& p : from.parts) {
    const part_state* other = find_part(to, p.name);
    if (other == nullptr) return tl::unexpected("the second has no part '" + p.name + "'");
    const auto a = find(out.asked, p.device), b = find(out.asked, other->device);
    if (!a) return tl::unexpected(a.error());
    if (!b) return tl::unexpected(b.error());
    out.from.where.push_back(*a);
    out.to.push_back(*b);
  }
  if (to.parts.size() != from.parts.size())
    return tl::unexpected<std::string>("the second has more parts: they are of different models");
  add_times(out.asked, from, out.from.where, out.to);
  return out;
}

tl::expected<two_placements, std::string> after_plan(const snapshot& from, const plan& planned) {
  snapshot after = from;
  for (const planned_move& m : planned.moves) {
    const auto p = std::ranges::find(after.parts, m.subject, &part_state::name);
    if (m.kind == subject_kind::part && p != after.parts.end()) p->device = m.to;
  }
  return between(from, after);
}

}  // namespace terrane::policies::placement
