#include "policies/placement/obstacles.hpp"

#include <algorithm>
#include <optional>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

struct sums {
  std::uint64_t weights = 0, kv = 0, room = 0, fees = 0, reserves = 0, others = 0;
};

sums sums_of(const request& r) {
  sums out;
  std::vector<std::uint8_t> seen(r.parts.size(), 0);
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    const std::uint64_t kv = kv_bytes(r, p);
    out.kv += kv;
    out.weights += own_bytes(r, p) - kv;
    const std::int32_t kind = r.parts[p].shared;
    if (kind >= 0 && seen[static_cast<std::size_t>(kind)]++ == 0) out.weights += shared_bytes(r, p);
  }
  out.room = room_together(r);
  for (const device_supply& d : r.devices) {
    if (!d.left_out.empty()) continue;
    out.fees += std::min(d.fee_bytes, d.budget_bytes);
    out.reserves += std::min(d.reserve_bytes, d.budget_bytes);
    out.others += d.others_bytes;
  }
  return out;
}

// What the room would be if something were not: `change` takes it from a device.
template <class F>
std::uint64_t room_if(request r, F change) {
  for (pool& p : r.pools)
    for (std::uint32_t d : p.devices) {
      const std::uint64_t before = r.devices[d].budget_bytes;
      device_supply changed = r.devices[d];
      change(changed);
      // Who uses a pool's memory is told for each of its devices.
      p.budget_bytes = std::max(p.budget_bytes, p.budget_bytes + changed.budget_bytes - before);
    }
  for (device_supply& d : r.devices) change(d);
  return room_together(r);
}
void without_reserve(device_supply& d) { d.reserve_bytes = 0; }
void without_fee(device_supply& d) { d.fee_bytes = 0; }
void without_others(device_supply& d) {
  d.budget_bytes += d.others_bytes;
  d.others_bytes = 0;
}

// The part that no device has room for, even alone.
std::optional<refusal> part_too_large(const request& r) {
  std::uint64_t most = 0;
  for (std::uint64_t room : room_bytes(r)) most = std::max(most, room);
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    const std::uint64_t kv = kv_bytes(r, p);
    const std::uint64_t bytes = own_bytes(r, p) + shared_bytes(r, p);
    if (bytes <= most) continue;
    return refusal{bytes - kv > most ? obstacle::weights : obstacle::kv,
                   r.parts[p].name + " needs " + format_bytes(bytes) + " (weights " +
                       format_bytes(bytes - kv) + ", KV " + format_bytes(kv) +
                       ") and no device has room for more than " + format_bytes(most)};
  }
  return std::nullopt;
}

std::string in_all(const sums& s) {
  return "the model needs " + format_bytes(s.weights + s.kv) + " (weights " +
         format_bytes(s.weights) + ", KV " + format_bytes(s.kv) +
         ") and the devices have room for " + format_bytes(s.room) + " (after scratch of " +
         format_bytes(s.fees) + ", reserves of " + format_bytes(s.reserves) + ", others' use of " +
         format_bytes(s.others) + ")";
}

// The devices that were not asked, or that share what they have.
std::string remarks(const request& r) {
  std::string text;
  for (const pool& p : r.pools) {
    std::string names;
    for (std::uint32_t d : p.devices) {
      if (!r.devices[d].left_out.empty()) continue;
      names += (names.empty() ? "" : " and ") + r.devices[d].name;
    }
    if (names.find(" and ") != std::string::npos)
      text += "; " + names + " share " + p.name + ", " + format_bytes(most_bytes(r, p));
  }
  for (const device_supply& d : r.devices)
    if (!d.left_out.empty()) text += "; " + d.name + " is left out: " + d.left_out;
  return text;
}

refusal find_obstacle(const request& r) {
  const sums s = sums_of(r);
  const std::uint64_t needed = s.weights + s.kv;
  if (needed > s.room) {
    const std::string numbers = in_all(s);
    if (needed <= room_if(r, without_reserve))
      return {obstacle::reserve, numbers + "; without the reserves it would fit"};
    if (needed <= room_if(r, without_others))
      return {obstacle::others, numbers + "; it would fit if others gave their memory back"};
    if (s.weights <= s.room)
      return {obstacle::kv,
              numbers + "; the weights fit, so a shorter context or fewer sessions do"};
    if (needed <= room_if(r, without_fee))
      return {obstacle::scratch, numbers +
                                     "; scratch is what is too much: fewer rows a step, or a "
                                     "shorter context, make it smaller"};
    return {obstacle::weights, numbers + "; it takes another device, or a smaller model"};
  }
  if (auto part = part_too_large(r)) return *part;
  return {obstacle::packing,
          in_all(s) +
              ", but no way was found to divide the parts so that each device keeps to its "
              "room and to what is pinned, ruled out and limited"};
}

}  // namespace

refusal why_not(const request& r) {
  refusal found = find_obstacle(r);
  found.message += remarks(r);
  return found;
}

}  // namespace terrane::policies::placement
