#include "policies/placement/request.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

tl::unexpected<refusal> refuse(obstacle what, std::string message) {
  return tl::unexpected<refusal>(refusal{what, std::move(message)});
}

std::string said_by(const std::string& by) { return by.empty() ? "" : " (" + by + ")"; }

// Sums of a few such numbers are still counted rightly, with a sign as well.
constexpr std::uint64_t most_countable = std::uint64_t{1} << 60;

bool is_time(double s) { return std::isfinite(s) && s >= 0; }
bool is_link(const link& l) { return is_time(l.latency_s) && is_time(l.bytes_per_s); }

// All parts together, with KV for every session.
outcome<void> check_bytes(const request& r) {
  double all = 0;
  const double pages = (static_cast<double>(r.context_tokens) / r.page_tokens + 1) * r.sessions;
  for (const part_demand& p : r.parts)
    all += static_cast<double>(p.weight_bytes) + 2 * static_cast<double>(r.granule_bytes) +
           static_cast<double>(p.kv_page_bytes) * (pages + r.pages_together);
  if (!(all < static_cast<double>(most_countable)))
    return refuse(obstacle::malformed, "the parts have more bytes than can be counted");
  for (const device_supply& d : r.devices)
    for (std::uint64_t bytes : {d.budget_bytes, d.reserve_bytes, d.fee_bytes, d.others_bytes})
      if (bytes > most_countable)
        return refuse(obstacle::malformed,
                      "device " + d.name + " has more bytes than can be counted");
  return {};
}

outcome<void> check_links(const request& r) {
  for (const link_between& l : r.links) {
    if (l.from >= r.devices.size() || l.to >= r.devices.size())
      return refuse(obstacle::malformed, "a link is between devices that are not there");
    if (!is_link(l.by))
      return refuse(obstacle::malformed, "the link from " + r.devices[l.from].name + " to " +
                                             r.devices[l.to].name +
                                             " has a time or speed that is none");
  }
  if (!is_link(r.near) || !is_link(r.far))
    return refuse(obstacle::malformed, "the links of sites have a time or speed that is none");
  return {};
}

outcome<void> check_pools(const request& r) {
  std::vector<bool> seen(r.devices.size(), false);
  for (const pool& p : r.pools)
    for (std::uint32_t d : p.devices) {
      if (d >= r.devices.size() || seen[d])
        return refuse(obstacle::malformed, p.name + " has a device that is not there, or in two");
      seen[d] = true;
    }
  return {};
}

outcome<void> check_parts(const request& r) {
  for (const part_demand& p : r.parts) {
    if ((p.work + std::size_t{1}) * r.speeds > r.seconds.size())
      return refuse(obstacle::malformed, "there are no times for part " + p.name);
    if (p.shared >= 0 &&
        (p.shared_bytes > p.weight_bytes || static_cast<std::size_t>(p.shared) >= r.parts.size()))
      return refuse(obstacle::malformed, "part " + p.name + " shares what it does not have");
  }
  return {};
}

outcome<void> check_numbers(const request& r) {
  if (r.parts.empty() || r.devices.empty())
    return refuse(obstacle::malformed, "there are no parts or no devices to place");
  if (r.page_tokens == 0 || r.pages_together == 0 || r.granule_bytes == 0)
    return refuse(obstacle::malformed, "pages and granules have at least one token, page and byte");
  if (auto ok = check_parts(r); !ok) return ok;
  for (const device_supply& d : r.devices)
    if (d.speed >= r.speeds)
      return refuse(obstacle::malformed, "there are no times for device " + d.name);
  for (double s : r.seconds)
    if (!is_time(s)) return refuse(obstacle::malformed, "a part's time is no number of seconds");
  if (auto ok = check_bytes(r); !ok) return ok;
  if (auto ok = check_links(r); !ok) return ok;
  return check_pools(r);
}

outcome<void> check_indices(const request& r) {
  const auto bad = [&](std::uint32_t device) { return device >= r.devices.size(); };
  for (const pin& p : r.pins)
    if (p.part >= r.parts.size() || bad(p.device))
      return refuse(obstacle::malformed, "a pin names what is not there" + said_by(p.by));
  for (const keep_off& k : r.exclusions)
    if (k.part.value_or(0) >= r.parts.size() || bad(k.device))
      return refuse(obstacle::malformed, "an exclusion names what is not there" + said_by(k.by));
  for (const at_most& l : r.limits)
    if (bad(l.device))
      return refuse(obstacle::malformed,
                    "a limit names a device that is not there" + said_by(l.by));
  return {};
}

// Against the pin of the same part that came first, and what rules its device out.
outcome<void> check_pin(const request& r, const pin& p) {
  const std::string what =
      r.parts[p.part].name + " is pinned to " + r.devices[p.device].name + said_by(p.by);
  for (const pin& q : r.pins) {
    if (q.part == p.part && q.device != p.device)
      return refuse(obstacle::contradiction, what + " and to " + r.devices[q.device].name +
                                                 said_by(q.by) + "; leave one of them out");
  }
  for (const keep_off& k : r.exclusions) {
    if (k.device == p.device && k.part.value_or(p.part) == p.part)
      return refuse(obstacle::contradiction, what + ", which " + (k.part ? "it" : "everything") +
                                                 " is to keep off" + said_by(k.by) +
                                                 "; leave one of them out");
  }
  if (const std::string& why = r.devices[p.device].left_out; !why.empty())
    return refuse(obstacle::contradiction,
                  what + ", which is not used: " + why + "; take the pin away");
  return {};
}

// Who limits the device to less than its budget.
std::string limited_by(const request& r, std::uint32_t d) {
  const std::uint64_t most = most_bytes(r)[d];
  const device_supply& of = r.devices[d];
  for (const at_most& l : r.limits)
    if (l.device == d && l.bytes == most && most + of.reserve_bytes < of.budget_bytes)
      return said_by(l.by);
  return "";
}

// What is pinned to a device against what it may hold.
outcome<void> check_pinned_bytes(const request& r) {
  std::vector<std::uint64_t> bytes(r.devices.size(), 0);
  std::vector<std::uint32_t> pinned(r.devices.size(), 0);
  std::vector<bool> seen(r.parts.size(), false);
  std::set<std::pair<std::uint32_t, std::int32_t>> shared;
  for (const pin& p : r.pins) {
    if (seen[p.part]) continue;
    seen[p.part] = true;
    pinned[p.device]++;
    bytes[p.device] += own_bytes(r, p.part);
    if (shared.emplace(p.device, r.parts[p.part].shared).second)
      bytes[p.device] += shared_bytes(r, p.part);
  }
  const std::vector<std::uint64_t> rooms = room_bytes(r);
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
    if (pinned[d] == 0) continue;
    if (bytes[d] <= rooms[d]) continue;
    return refuse(obstacle::contradiction,
                  std::to_string(pinned[d]) + " parts of " + format_bytes(bytes[d]) +
                      " are pinned to " + r.devices[d].name + ", which has room for " +
                      format_bytes(rooms[d]) + limited_by(r, d) + "; pin fewer, or give it more");
  }
  return {};
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

const char* to_string(obstacle o) {
  switch (o) {
    case obstacle::malformed:
      return "malformed";
    case obstacle::contradiction:
      return "contradiction";
    case obstacle::weights:
      return "weights";
    case obstacle::kv:
      return "kv";
    case obstacle::scratch:
      return "scratch";
    case obstacle::reserve:
      return "reserve";
    case obstacle::others:
      return "others";
    case obstacle::packing:
      return "packing";
    case obstacle::moves:
      return "moves";
  }
  return "unknown";
}

std::uint64_t kv_bytes(const request& r, std::uint32_t part) {
  const std::uint64_t page_bytes = r.parts[part].kv_page_bytes;
  if (page_bytes == 0) return 0;
  const std::uint64_t each = (std::uint64_t{r.context_tokens} + r.page_tokens - 1) / r.page_tokens;
  const std::uint64_t pages = rounded_up(each * r.sessions, r.pages_together);
  return rounded_up(pages * page_bytes, r.granule_bytes);
}

std::uint64_t own_bytes(const request& r, std::uint32_t part) {
  const part_demand& p = r.parts[part];
  const std::uint64_t own = p.weight_bytes - (p.shared >= 0 ? p.shared_bytes : 0);
  return rounded_up(own, r.granule_bytes) + kv_bytes(r, part);
}

std::uint64_t shared_bytes(const request& r, std::uint32_t part) {
  const part_demand& p = r.parts[part];
  return p.shared >= 0 ? rounded_up(p.shared_bytes, r.granule_bytes) : 0;
}

std::vector<std::uint64_t> most_bytes(const request& r) {
  std::vector<std::uint64_t> most;
  for (const device_supply& d : r.devices)
    most.push_back(d.left_out.empty() && d.budget_bytes > d.reserve_bytes
                       ? d.budget_bytes - d.reserve_bytes
                       : 0);
  for (const at_most& l : r.limits) most[l.device] = std::min(most[l.device], l.bytes);
  return most;
}

std::vector<std::uint64_t> room_bytes(const request& r) {
  std::vector<std::uint64_t> room = most_bytes(r);
  for (std::size_t d = 0; d < room.size(); ++d)
    room[d] -= std::min(room[d], r.devices[d].fee_bytes);
  return room;
}

std::uint64_t most_bytes(const request& r, const pool& of) {
  std::uint64_t reserve = 0;
  for (std::uint32_t d : of.devices) reserve = std::max(reserve, r.devices[d].reserve_bytes);
  return of.budget_bytes > reserve ? of.budget_bytes - reserve : 0;
}

std::uint64_t room_together(const request& r) {
  const std::vector<std::uint64_t> room = room_bytes(r);
  std::uint64_t all = 0;
  for (std::uint64_t each : room) all += each;
  for (const pool& p : r.pools) {
    std::uint64_t apart = 0, fee = most_countable;
    for (std::uint32_t d : p.devices) {
      apart += room[d];
      if (room[d] != 0) fee = std::min(fee, r.devices[d].fee_bytes);
    }
    const std::uint64_t most = most_bytes(r, p), together = most > fee ? most - fee : 0;
    if (apart > together) all -= apart - together;
  }
  return all;
}

const link& link_of(const request& r, std::uint32_t from, std::uint32_t to) {
  for (const link_between& l : r.links)
    if (l.from == from && l.to == to) return l.by;
  return r.devices[from].site == r.devices[to].site ? r.near : r.far;
}

outcome<void> check(const request& r) {
  if (auto ok = check_numbers(r); !ok) return ok;
  if (auto ok = check_indices(r); !ok) return ok;
  for (const pin& p : r.pins)
    if (auto ok = check_pin(r, p); !ok) return ok;
  return check_pinned_bytes(r);
}

}  // namespace terrane::policies::placement
