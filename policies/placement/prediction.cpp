#include "policies/placement/prediction.hpp"

#include <algorithm>
#include <map>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

tl::unexpected<refusal> refuse(obstacle what, std::string message) {
  return tl::unexpected<refusal>(refusal{what, std::move(message)});
}

// What people and policies insist on.
outcome<void> check_wishes(const request& r, const placed& where) {
  for (const pin& p : r.pins)
    if (where[p.part] != p.device)
      return refuse(obstacle::contradiction, r.parts[p.part].name + " is pinned to " +
                                                 r.devices[p.device].name + ", not to " +
                                                 r.devices[where[p.part]].name);
  for (const keep_off& k : r.exclusions) {
    for (std::uint32_t p = 0; p < where.size(); ++p) {
      if (where[p] == k.device && k.part.value_or(p) == p)
        return refuse(obstacle::contradiction,
                      r.parts[p].name + " is to keep off " + r.devices[k.device].name);
    }
  }
  return {};
}

}  // namespace

prediction predict(const request& r, const placed& where) {
  prediction out;
  out.devices.resize(r.devices.size());
  // Who holds what is shared; few parts do.
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint64_t> shared;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> crossing;
  for (std::uint32_t p = 0; p < where.size(); ++p) {
    const std::uint32_t d = where[p];
    device_share& share = out.devices[d];
    const std::uint64_t kv = kv_bytes(r, p);
    share.parts++;
    share.kv_bytes += kv;
    share.weight_bytes += own_bytes(r, p) - kv;
    if (r.parts[p].shared >= 0) {
      std::uint64_t& held = shared[{d, r.parts[p].shared}];
      const std::uint64_t most = std::max(held, shared_bytes(r, p));
      share.weight_bytes += most - held;
      held = most;
    }
    const double seconds = r.seconds_of(p, d);
    share.seconds += seconds;
    out.parts_s += seconds;
    if (p == 0 || r.parts[p].begins || where[p - 1] == d) continue;
    const auto [at, fresh] = crossing.try_emplace({where[p - 1], d}, 0);
    if (fresh) at->second = link_of(r, where[p - 1], d).seconds(r.activation_bytes);
    out.crossing_s += at->second;
    out.crossings++;
  }
  const std::vector<std::uint64_t> room = room_bytes(r);
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
    device_share& share = out.devices[d];
    if (share.parts != 0) share.fee_bytes = r.devices[d].fee_bytes;
    const std::uint64_t used = share.weight_bytes + share.kv_bytes;
    share.room_bytes = room[d] > used ? room[d] - used : 0;
  }
  out.token_s = out.parts_s + out.crossing_s;
  return out;
}

std::uint64_t held_bytes(const prediction& all, const pool& of) {
  std::uint64_t sum = 0;
  for (std::uint32_t d : of.devices) sum += all.devices[d].held_bytes();
  return sum;
}

outcome<void> check(const request& r, const placed& where) {
  if (where.size() != r.parts.size())
    return refuse(obstacle::malformed, "a placement of " + std::to_string(where.size()) +
                                           " parts for a model of " +
                                           std::to_string(r.parts.size()));
  for (std::uint32_t d : where)
    if (d >= r.devices.size())
      return refuse(obstacle::malformed, "a placement names a device that is not there");
  if (auto ok = check_wishes(r, where); !ok) return ok;
  const prediction all = predict(r, where);
  const std::vector<std::uint64_t> most = most_bytes(r);
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
    const device_share& share = all.devices[d];
    if (share.parts == 0) continue;
    const device_supply& device = r.devices[d];
    if (!device.left_out.empty())
      return refuse(obstacle::contradiction, device.name + " is not used: " + device.left_out);
    if (share.held_bytes() > most[d])
      return refuse(obstacle::packing, device.name + " would hold " +
                                           format_bytes(share.held_bytes()) + " and may hold " +
                                           format_bytes(most[d]));
  }
  for (const pool& p : r.pools)
    if (held_bytes(all, p) > most_bytes(r, p))
      return refuse(obstacle::packing, p.name + " would hold " + format_bytes(held_bytes(all, p)) +
                                           " and may hold " + format_bytes(most_bytes(r, p)));
  return {};
}

}  // namespace terrane::policies::placement
