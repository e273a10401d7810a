#include "policies/placement/instance.hpp"

#include <algorithm>
#include <utility>

namespace terrane::policies::placement {
namespace {

// Which devices a part may be on: 1 where it may.
std::vector<std::uint8_t> allowed_places(const request& r, std::uint32_t rank) {
  const std::size_t devices = r.devices.size();
  std::vector<std::uint8_t> allowed(r.parts.size() * devices, 1);
  const auto rule_out = [&](std::size_t p, std::size_t d) { allowed[p * devices + d] = 0; };
  for (std::size_t p = 0; p < r.parts.size(); ++p)
    for (std::size_t d = 0; d < devices; ++d)
      if (r.devices[d].rank > rank || !r.devices[d].left_out.empty()) rule_out(p, d);
  for (const keep_off& k : r.exclusions)
    for (std::size_t p = 0; p < r.parts.size(); ++p)
      if (k.part.value_or(static_cast<std::uint32_t>(p)) == p) rule_out(p, k.device);
  for (const pin& p : r.pins)
    for (std::size_t d = 0; d < devices; ++d) {
      if (d != p.device)
        rule_out(p.part, d);
      else if (r.devices[d].left_out.empty())
        allowed[p.part * devices + d] = 1;  // whatever its rank
    }
  return allowed;
}

void number_shared(const request& r, instance& to) {
  for (std::uint32_t p = 0; p < to.parts; ++p) {
    const std::int32_t kind = r.parts[p].shared;
    to.shared.push_back(kind);
    if (kind < 0) continue;
    to.shared_kinds = std::max(to.shared_kinds, static_cast<std::uint32_t>(kind) + 1);
    to.shared_bytes.resize(to.shared_kinds, 0);
    auto& bytes = to.shared_bytes[static_cast<std::size_t>(kind)];
    bytes = std::max(bytes, static_cast<std::int64_t>(shared_bytes(r, p)));
  }
  to.shared_holders.assign(std::size_t{to.shared_kinds} * to.devices, 0);
}

void number_pools(const request& r, instance& to) {
  to.pool.assign(to.devices, -1);
  to.fee.assign(to.devices, 0);
  for (const pool& p : r.pools) {
    for (std::uint32_t d : p.devices) {
      to.pool[d] = static_cast<std::int32_t>(to.pool_room.size());
      to.fee[d] = static_cast<std::int64_t>(r.devices[d].fee_bytes);
    }
    to.pool_room.push_back(static_cast<std::int64_t>(most_bytes(r, p)));
  }
}

// Of the device, and of what it shares.
void book(std::uint32_t device, std::int64_t bytes, instance& to) {
  to.room[device] -= bytes;
  if (to.pool[device] < 0) return;
  std::int64_t& shared = to.pool_room[static_cast<std::size_t>(to.pool[device])];
  shared -= bytes + std::exchange(to.fee[device], 0);
}

void book_pinned(const request& r, instance& to) {
  std::vector<std::uint8_t> booked(to.parts, 0);
  for (const pin& p : r.pins) {
    if (booked[p.part]++ != 0) continue;
    book(p.device, std::exchange(to.bytes[p.part], 0), to);
    const std::int32_t kind = to.shared[p.part];
    if (kind < 0) continue;
    auto& holders = to.shared_holders[static_cast<std::size_t>(kind) * to.devices + p.device];
    if (holders++ == 0) book(p.device, to.shared_bytes[static_cast<std::size_t>(kind)], to);
    to.shared[p.part] = -1;
  }
}

// So much a byte that the smallest part on a device of the last rank costs more than all time.
void charge_last_rank(const request& r, std::uint32_t rank, instance& to) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t p = 0; p < to.parts; ++p)
    if (const std::int64_t b = to.alone_bytes(p); b > 0) smallest = std::min(smallest, b);
  const double a_byte = 2 * to.most_cost / static_cast<double>(smallest);
  double most = 0;
  for (std::uint32_t p = 0; p < to.parts; ++p) {
    const double charge = a_byte * static_cast<double>(to.alone_bytes(p));
    most += charge;
    for (std::uint32_t d = 0; d < to.devices; ++d)
      if (r.devices[d].rank == rank) to.cost[p * std::size_t{to.devices} + d] += charge;
  }
  to.most_cost += most;
}

}  // namespace

instance make_instance(const request& r, std::uint32_t rank, bool last) {
  instance out;
  out.parts = static_cast<std::uint32_t>(r.parts.size());
  out.devices = static_cast<std::uint32_t>(r.devices.size());
  for (std::uint64_t room : room_bytes(r)) out.room.push_back(static_cast<std::int64_t>(room));
  number_pools(r, out);
  number_shared(r, out);
  double most_crossing = 0;
  out.crossing.assign(std::size_t{out.devices} * out.devices, 0);
  for (std::uint32_t a = 0; a < out.devices; ++a)
    for (std::uint32_t b = 0; b < out.devices; ++b) {
      if (a == b) continue;
      const double s = link_of(r, a, b).seconds(r.activation_bytes);
      out.crossing[a * std::size_t{out.devices} + b] = s;
      most_crossing = std::max(most_crossing, s);
    }
  const std::vector<std::uint8_t> allowed = allowed_places(r, rank);
  out.cost.assign(std::size_t{out.parts} * out.devices, never);
  for (std::uint32_t p = 0; p < out.parts; ++p) {
    out.begins.push_back(p == 0 || r.parts[p].begins ? 1 : 0);
    out.bytes.push_back(static_cast<std::int64_t>(own_bytes(r, p)));
    double most = 0;
    for (std::uint32_t d = 0; d < out.devices; ++d) {
      const std::size_t at = p * std::size_t{out.devices} + d;
      if (allowed[at] == 0) continue;
      out.cost[at] = r.seconds_of(p, d);
      most = std::max(most, out.cost[at]);
    }
    out.most_cost += most + most_crossing;
  }
  book_pinned(r, out);
  if (last) charge_last_rank(r, rank, out);
  return out;
}

double instance::cost_of(const placed& where) const {
  double sum = 0;
  for (std::uint32_t p = 0; p < parts; ++p) {
    sum += cost_of(p, where[p]);
    if (p > 0) sum += crossing_into(p, where[p - 1], where[p]);
  }
  return sum;
}

bool is_legal(const instance& of, const placed& where) {
  room_book book(of);
  for (std::uint32_t p = 0; p < of.parts; ++p) {
    if (of.cost_of(p, where[p]) == never) return false;
    book.put(p, where[p]);
  }
  return book.is_sound();
}

}  // namespace terrane::policies::placement
