// A request in the form the searches work on: dense tables of costs, bytes and room. For as many
// devices as one engine can have; a fleet has its own form (fleet.hpp). Made once for each plan,
// constant after; belongs to the planner.
//
// What is pinned is booked before any search begins: its bytes have left the room of its device,
// and it costs nothing to put it there. So a search never strands a pinned part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "policies/placement/request.hpp"

namespace terrane::policies::placement {

inline constexpr double never = std::numeric_limits<double>::infinity();
// More devices than this are planned as a fleet.
inline constexpr std::uint32_t most_dense_devices = 32;

struct instance {
  std::uint32_t parts = 0, devices = 0, shared_kinds = 0;
  std::vector<double> cost;                // [part][device]: seconds and what the last rank adds
  std::vector<double> crossing;            // [from][to] seconds
  std::vector<std::uint8_t> begins;        // by part
  std::vector<std::int64_t> bytes;         // by part; what it shares left out, 0 when it is pinned
  std::vector<std::int32_t> shared;        // by part: kind of what it shares, -1: nothing to book
  std::vector<std::int64_t> shared_bytes;  // by kind
  std::vector<std::uint32_t> shared_holders;  // [kind][device] of pinned parts
  std::vector<std::int64_t> room;             // by device
  // What devices share: the pool of each device or -1, what the pool's devices may hold together,
  // and what a device takes of its pool with its first part.
  std::vector<std::int32_t> pool;       // by device
  std::vector<std::int64_t> pool_room;  // by pool
  std::vector<std::int64_t> fee;        // by device; 0 where a pinned part has paid it
  double most_cost = 0;                 // no legal placement costs more

  double cost_of(std::uint32_t p, std::uint32_t d) const {
    return cost[p * std::size_t{devices} + d];
  }
  // Of going from the device of part p - 1 to that of p.
  double crossing_into(std::uint32_t p, std::uint32_t from, std::uint32_t to) const {
    return begins[p] != 0 ? 0 : crossing[from * std::size_t{devices} + to];
  }
  // Of all parts; infinite where a part may not be where it is. Says nothing of room.
  double cost_of(const placed& where) const;
  // What a part takes on an empty device.
  std::int64_t alone_bytes(std::uint32_t p) const {
    return bytes[p] + (shared[p] < 0 ? 0 : shared_bytes[static_cast<std::size_t>(shared[p])]);
  }
};

// Devices of ranks up to `rank` only; where `last`, each byte on a device of that rank costs more
// than any gain of time, to within the bytes of the smallest part.
instance make_instance(const request& r, std::uint32_t rank, bool last);

// What is left on each device while parts come and go.
class room_book {
 public:
  explicit room_book(const instance& of)
      : of_(of),
        left_(of.room),
        pool_left_(of.pool_room),
        count_(of.devices, 0),
        holders_(of.shared_holders) {}

  // What the part would take there.
  std::int64_t bytes(std::uint32_t p, std::uint32_t d) const {
    const std::int32_t kind = of_.shared[p];
    if (kind < 0 || holders_[holder(kind, d)] != 0) return of_.bytes[p];
    return of_.bytes[p] + of_.shared_bytes[static_cast<std::size_t>(kind)];
  }
  bool fits(std::uint32_t p, std::uint32_t d) const {
    return of_.cost_of(p, d) < never && bytes(p, d) <= left(d);
  }
  void put(std::uint32_t p, std::uint32_t d) {
    change(d, -bytes(p, d));
    if (count_[d]++ == 0) pay(d, -of_.fee[d]);
    if (of_.shared[p] >= 0) holders_[holder(of_.shared[p], d)]++;
  }
  void take(std::uint32_t p, std::uint32_t d) {
    if (of_.shared[p] >= 0) holders_[holder(of_.shared[p], d)]--;
    if (--count_[d] == 0) pay(d, of_.fee[d]);
    change(d, bytes(p, d));
  }
  // For parts: of the device itself and of what it shares with others.
  std::int64_t left(std::uint32_t d) const {
    if (of_.pool[d] < 0) return left_[d];
    const std::int64_t fee = count_[d] == 0 ? of_.fee[d] : 0;
    return std::min(left_[d], pool_left_[static_cast<std::size_t>(of_.pool[d])] - fee);
  }
  // Whether nothing holds more than its room.
  bool is_sound() const {
    const auto sound = [](std::int64_t left) { return left >= 0; };
    return std::ranges::all_of(left_, sound) && std::ranges::all_of(pool_left_, sound);
  }

 private:
  void change(std::uint32_t d, std::int64_t by) {
    left_[d] += by;
    pay(d, by);
  }
  void pay(std::uint32_t d, std::int64_t by) {
    if (of_.pool[d] >= 0) pool_left_[static_cast<std::size_t>(of_.pool[d])] += by;
  }
  std::size_t holder(std::int32_t kind, std::uint32_t d) const {
    return static_cast<std::size_t>(kind) * of_.devices + d;
  }

  const instance& of_;
  std::vector<std::int64_t> left_, pool_left_;
  std::vector<std::uint32_t> count_;  // parts of each device, pinned ones left out
  std::vector<std::uint32_t> holders_;
};

// Whether no device and no pool holds more than its room and every part is where it may be.
bool is_legal(const instance& of, const placed& where);

}  // namespace terrane::policies::placement
