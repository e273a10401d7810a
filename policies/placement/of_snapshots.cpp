#include "policies/placement/of_snapshots.hpp"

#include <algorithm>
#include <set>

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
    to.shared = p.shared;
    to.shared_bytes = p.shared_bytes;
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

// ---- What runs now

// A hop whose time was not measured: a submission, and a wake-up on the way.
constexpr double unmeasured_hop_s = 50e-6;

std::vector<part_demand> full_parts_of(const snapshot& s) {
  std::vector<part_demand> out;
  for (const part_state& p : s.parts) {
    part_demand to;
    to.name = p.name;
    to.work = static_cast<std::uint32_t>(out.size());
    to.weight_bytes = p.weight_bytes + std::max(p.kv_bytes, p.kv_most_bytes);
    to.shared = p.shared;
    to.shared_bytes = p.shared_bytes;
    out.push_back(std::move(to));
  }
  return out;
}

// Of each device, what its parts hold now and what they would with full contexts.
struct held {
  std::uint32_t parts = 0;
  std::uint64_t now_bytes = 0, full_bytes = 0;
};
std::vector<held> held_by(const snapshot& s, const request& r, const placed& where) {
  std::vector<held> out(r.devices.size());
  std::set<std::pair<std::uint32_t, std::int32_t>> seen;
  for (std::uint32_t p = 0; p < where.size(); ++p) {
    held& on = out[where[p]];
    const std::uint64_t shared = shared_bytes(r, p);
    const bool again = shared != 0 && !seen.emplace(where[p], r.parts[p].shared).second;
    on.parts++;
    on.now_bytes += s.parts[p].weight_bytes + s.parts[p].kv_bytes - (again ? shared : 0);
    on.full_bytes += own_bytes(r, p) + (again ? 0 : shared);
  }
  return out;
}

void measure_fees(const snapshot& s, const std::vector<held>& all, request& r) {
  for (std::size_t d = 0; d < r.devices.size(); ++d) {
    const std::uint64_t ours = bytes_of(s.devices[d].vram_ours);
    device_supply& to = r.devices[d];
    to.rank = s.devices[d].rank;
    to.fee_bytes = s.devices[d].scratch_bytes;
    if (all[d].parts != 0 && s.devices[d].vram_ours.present())
      to.fee_bytes = ours > all[d].now_bytes ? ours - all[d].now_bytes : 0;
  }
}

void allow_what_is(const std::vector<held>& all, request& r) {
  for (std::size_t d = 0; d < r.devices.size(); ++d) {
    device_supply& to = r.devices[d];
    if (all[d].parts == 0) continue;
    to.budget_bytes =
        std::max(to.budget_bytes, all[d].full_bytes + to.fee_bytes + to.reserve_bytes);
  }
  for (pool& p : r.pools) {
    std::uint64_t bytes = 0, reserve = 0;
    for (std::uint32_t d : p.devices) {
      reserve = std::max(reserve, r.devices[d].reserve_bytes);
      if (all[d].parts != 0) bytes += all[d].full_bytes + r.devices[d].fee_bytes;
    }
    p.budget_bytes = std::max(p.budget_bytes, bytes + reserve);
  }
}

// Seconds that a device takes for a byte of a token's weights; 0: nothing was timed there. An
// embedding reads one row of its bytes.
double byte_s(const snapshot& s, const std::string& device) {
  double bytes = 0, ms = 0;
  for (const part_state& p : s.parts) {
    const double took = p.kind == part_kind::embedding ? 0 : measured_ms(p, device);
    if (took <= 0) continue;
    bytes += static_cast<double>(p.weight_bytes);
    ms += took;
  }
  return bytes > 0 ? ms / 1e3 / bytes : 0;
}

std::string time_parts(const snapshot& s, const std::vector<held>& all, request& r) {
  r.speeds = static_cast<std::uint32_t>(r.devices.size());
  r.seconds.assign(r.parts.size() * r.speeds, 0);
  for (std::uint32_t d = 0; d < r.speeds; ++d) {
    const double a_byte = byte_s(s, r.devices[d].name);
    if (a_byte <= 0 && all[d].parts != 0)
      return "how long parts take on " + r.devices[d].name + " has not been measured yet";
    if (a_byte <= 0) r.devices[d].left_out = "how long parts take there has not been measured";
    for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
      const part_state& part = s.parts[p];
      const double took = measured_ms(part, r.devices[d].name) / 1e3;
      const bool row = part.kind == part_kind::embedding;
      r.seconds[p * std::size_t{r.speeds} + d] =
          took > 0 || row ? took : a_byte * static_cast<double>(part.weight_bytes);
    }
  }
  return {};
}

void add_hops(const snapshot& s, request& r) {
  for (std::uint32_t a = 0; a < r.devices.size(); ++a)
    for (std::uint32_t b = 0; b < r.devices.size(); ++b) {
      const double ms = s.devices[b].hop_ms;
      if (a != b) r.links.push_back({a, b, {ms > 0 ? ms / 1e3 : unmeasured_hop_s, 0}});
    }
}

}  // namespace

tl::expected<running, std::string> running_in(const snapshot& s) {
  running out;
  request& r = out.asked;
  r.devices = devices_of(s);
  r.pools = pools_of(s, r.devices);
  r.parts = full_parts_of(s);
  for (const part_state& p : s.parts) {
    const auto d = find(r, p.device);
    if (!d) return tl::unexpected("'" + p.name + "' is on '" + p.device + "', which is not there");
    out.where.push_back(*d);
  }
  if (r.parts.empty()) return tl::unexpected<std::string>("there are no parts");
  const std::vector<held> all = held_by(s, r, out.where);
  measure_fees(s, all, r);
  allow_what_is(all, r);
  if (std::string why = time_parts(s, all, r); !why.empty()) return tl::unexpected(std::move(why));
  add_hops(s, r);
  return out;
}

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
