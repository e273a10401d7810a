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
  for (const device_supply& d : r.devices) {
    if (!d.left_out.empty()) continue;
    out.room += d.room_bytes();
    out.fees += std::min(d.fee_bytes, d.budget_bytes);
    out.reserves += std::min(d.reserve_bytes, d.budget_bytes);
    out.others += d.others_bytes;
  }
  return out;
}

std::uint64_t room_if(const request& r, bool no_reserve, bool no_fee, bool no_others) {
  std::uint64_t room = 0;
  for (device_supply d : r.devices) {
    if (no_reserve) d.reserve_bytes = 0;
    if (no_fee) d.fee_bytes = 0;
    if (no_others) d.budget_bytes += d.others_bytes;
    room += d.room_bytes();
  }
  return room;
}

// The part that no device has room for, even alone.
std::optional<refusal> part_too_large(const request& r) {
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    const std::uint64_t kv = kv_bytes(r, p);
    const std::uint64_t bytes = own_bytes(r, p) + shared_bytes(r, p);
    std::uint64_t most = 0;
    for (const device_supply& d : r.devices) most = std::max(most, d.room_bytes());
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

}  // namespace

refusal why_not(const request& r) {
  const sums s = sums_of(r);
  const std::uint64_t needed = s.weights + s.kv;
  if (needed > s.room) {
    const std::string numbers = in_all(s);
    if (needed <= room_if(r, true, false, false))
      return {obstacle::reserve, numbers + "; without the reserves it would fit"};
    if (needed <= room_if(r, false, false, true))
      return {obstacle::others, numbers + "; it would fit if others gave their memory back"};
    if (s.weights <= s.room)
      return {obstacle::kv,
              numbers + "; the weights fit, so a shorter context or fewer sessions do"};
    if (needed <= room_if(r, false, true, false))
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

}  // namespace terrane::policies::placement
