#include "policies/placement/fleet.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <vector>

#include "policies/placement/instance.hpp"

namespace terrane::policies::placement {
namespace {

constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();
// A class's devices are looked through so often for room that was left behind.
constexpr std::uint32_t most_sweeps = 3;

struct device_class {
  std::uint32_t speed = 0, rank = 0;
  std::vector<std::uint32_t> devices;  // by site
  double room = 0;                     // of all together
};

// What is left on each device, and in the pools that some of them share, while parts come.
class fleet_rooms {
 public:
  explicit fleet_rooms(const request& r) : pool_(r.devices.size(), apart), parts_(pool_.size(), 0) {
    for (std::uint64_t most : room_bytes(r)) left_.push_back(static_cast<std::int64_t>(most));
    for (const device_supply& d : r.devices) fee_.push_back(static_cast<std::int64_t>(d.fee_bytes));
    for (std::uint32_t p = 0; p < r.pools.size(); ++p) {
      pool_left_.push_back(static_cast<std::int64_t>(most_bytes(r, r.pools[p])));
      for (std::uint32_t d : r.pools[p].devices) pool_[d] = p;
    }
  }

  void close(std::uint32_t d) { left_[d] = closed; }
  void put(std::uint32_t d, std::int64_t bytes) {
    left_[d] -= bytes;
    if (pool_[d] != apart) pool_left_[pool_[d]] -= bytes + (parts_[d] == 0 ? fee_[d] : 0);
    ++parts_[d];
  }
  std::int64_t own(std::uint32_t d) const { return left_[d]; }
  // For parts: of the device itself, and of what it shares with others.
  std::int64_t left(std::uint32_t d) const {
    if (pool_[d] == apart) return left_[d];
    return std::min(left_[d], pool_left_[pool_[d]] - (parts_[d] == 0 ? fee_[d] : 0));
  }

 private:
  static constexpr std::int64_t closed = -1;  // not even for a part without bytes
  static constexpr std::uint32_t apart = std::numeric_limits<std::uint32_t>::max();

  std::vector<std::int64_t> left_, fee_, pool_left_;  // by device, by device, by pool
  std::vector<std::uint32_t> pool_, parts_;           // by device
};

// The request with everything in it that the walk asks often, by number.
class fleet {
 public:
  fleet(const request& r, std::uint32_t rank, bool last) : of(r), room(r) {
    make_rooms(rank);
    make_parts();
    book_pinned();
    make_classes();
    for (const link_between& l : r.links)
      own_links[pair_of(l.from, l.to)] = l.by.seconds(r.activation_bytes);
    near = r.near.seconds(r.activation_bytes);
    far = r.far.seconds(r.activation_bytes);
    least_crossing = std::min(near, far);
    for (const auto& [pair, seconds] : own_links)
      least_crossing = std::min(least_crossing, seconds);
    make_costs(last ? rank : nowhere);
  }

  double crossing(std::uint32_t p, std::uint32_t from, std::uint32_t to) const {
    if (from == to || from == nowhere || of.parts[p].begins) return 0;
    if (!own_links.empty())
      if (const auto l = own_links.find(pair_of(from, to)); l != own_links.end()) return l->second;
    return of.devices[from].site == of.devices[to].site ? near : far;
  }
  double cost(std::uint32_t p, std::size_t c) const {
    return costs[of.parts[p].work * classes.size() + c] + a_byte[c] * static_cast<double>(bytes[p]);
  }
  bool may(std::uint32_t p, std::uint32_t d) const {
    return room.left(d) >= bytes[p] && (kept_off.empty() || !kept_off.contains({p, d}));
  }

  const request& of;
  fleet_rooms room;
  std::vector<std::int64_t> bytes;    // by part
  std::vector<std::uint32_t> pinned;  // by part; nowhere: free
  std::vector<device_class> classes;
  std::vector<std::uint32_t> class_of;  // by device
  std::vector<double> costs;            // [work][class]
  std::vector<double> a_byte;           // by class: what a byte costs on the last rank
  double near = 0, far = 0, least_crossing = 0;
  std::unordered_map<std::uint64_t, double> own_links;
  std::set<std::pair<std::uint32_t, std::uint32_t>> kept_off;  // part, device

 private:
  static std::uint64_t pair_of(std::uint32_t from, std::uint32_t to) {
    return std::uint64_t{from} << 32 | to;
  }

  void make_rooms(std::uint32_t rank) {
    for (std::uint32_t d = 0; d < of.devices.size(); ++d)
      if (of.devices[d].rank > rank) room.close(d);
    for (const keep_off& k : of.exclusions) {
      if (k.part)
        kept_off.emplace(*k.part, k.device);
      else
        room.close(k.device);
    }
  }
  void make_parts() {
    for (std::uint32_t p = 0; p < of.parts.size(); ++p)
      bytes.push_back(static_cast<std::int64_t>(own_bytes(of, p) + shared_bytes(of, p)));
    pinned.assign(of.parts.size(), nowhere);
  }
  void book_pinned() {
    for (const pin& p : of.pins) {
      if (pinned[p.part] != nowhere) continue;
      pinned[p.part] = p.device;
      room.put(p.device, bytes[p.part]);
    }
  }
  void make_classes() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> known;
    class_of.resize(of.devices.size());
    for (std::uint32_t d = 0; d < of.devices.size(); ++d) {
      const device_supply& from = of.devices[d];
      const auto [at, fresh] = known.try_emplace({from.rank, from.speed}, classes.size());
      if (fresh) classes.push_back({from.speed, from.rank, {}, 0});
      class_of[d] = static_cast<std::uint32_t>(at->second);
      classes[at->second].devices.push_back(d);
      classes[at->second].room += static_cast<double>(std::max<std::int64_t>(0, room.left(d)));
    }
    for (device_class& c : classes)
      std::stable_sort(c.devices.begin(), c.devices.end(), [&](std::uint32_t a, std::uint32_t b) {
        return of.devices[a].site < of.devices[b].site;
      });
  }
  void make_costs(std::uint32_t dear_rank) {
    const std::size_t works = of.seconds.size() / of.speeds;
    for (std::size_t w = 0; w < works; ++w)
      for (const device_class& c : classes) costs.push_back(of.seconds[w * of.speeds + c.speed]);
    a_byte.assign(classes.size(), 0);
    if (dear_rank == nowhere) return;
    double most = 0;
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t p = 0; p < bytes.size(); ++p) {
      double worst = 0;
      for (std::size_t c = 0; c < classes.size(); ++c) worst = std::max(worst, cost(p, c));
      most += worst + std::max(near, far);
      if (bytes[p] > 0) smallest = std::min(smallest, bytes[p]);
    }
    for (std::size_t c = 0; c < classes.size(); ++c)
      if (classes[c].rank == dear_rank) a_byte[c] = 2 * most / static_cast<double>(smallest);
  }
};

class class_prices {
 public:
  explicit class_prices(const fleet& of) : of_(of), classes_(of.classes.size()) {
    price.assign(classes_, 0);
    to_go.assign(of.bytes.size() * classes_, 0);
    use_.assign(classes_, 0);
    priced_.assign(classes_, 0);
    for (const device_class& c : of.classes) room_.push_back(c.room);  // pinned parts are booked
  }

  void find(std::uint32_t rounds, double upper) {
    std::vector<double> best_price = price;
    double length = 1;
    int without_gain = 0;
    for (std::uint32_t i = 0; i < rounds; ++i) {
      const double b = pass();
      if (b > bound) {
        bound = b;
        best_price = price;
        without_gain = 0;
      } else if (++without_gain == 4) {
        length /= 2;
        without_gain = 0;
      }
      if (b >= upper || !step(upper - b, length)) break;
    }
    price = best_price;
    pass();
  }

  double bound = -never;
  std::vector<double> price;  // of a byte, by class
  std::vector<double> to_go;  // [part][class]

 private:
  void weigh(std::uint32_t p) {
    const std::uint32_t to = of_.pinned[p];
    const double size = to == nowhere ? static_cast<double>(of_.bytes[p]) : 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      const bool open = to == nowhere ? room_[c] > 0 : of_.class_of[to] == c;
      priced_[c] = open ? of_.cost(p, c) + price[c] * size + to_go[p * classes_ + c] : never;
    }
  }

  double pass() {
    const auto parts = static_cast<std::uint32_t>(of_.bytes.size());
    std::fill(to_go.end() - static_cast<std::ptrdiff_t>(classes_), to_go.end(), 0.0);
    for (std::uint32_t p = parts - 1; p > 0; --p) {
      weigh(p);
      const double least = *std::min_element(priced_.begin(), priced_.end());
      const double elsewhere = least + (of_.of.parts[p].begins ? 0 : of_.least_crossing);
      for (std::size_t c = 0; c < classes_; ++c)
        to_go[(p - 1) * classes_ + c] = std::min(priced_[c], elsewhere);
    }
    return trace(parts);
  }

  double trace(std::uint32_t parts) {
    std::fill(use_.begin(), use_.end(), 0);
    double all = 0;
    std::size_t at = 0;
    for (std::uint32_t p = 0; p < parts; ++p) {
      weigh(p);
      const auto least = std::min_element(priced_.begin(), priced_.end());
      const double crossing = of_.of.parts[p].begins ? 0 : of_.least_crossing;
      if (p == 0) all = *least;
      if (p == 0 || *least + crossing < priced_[at])
        at = static_cast<std::size_t>(least - priced_.begin());
      if (of_.pinned[p] == nowhere) use_[at] += static_cast<double>(of_.bytes[p]);
    }
    for (std::size_t c = 0; c < classes_; ++c) all -= price[c] * room_[c];
    return all;
  }

  bool step(double gap, double length) {
    double norm = 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      const double over = use_[c] - room_[c];
      if (over > 0 || price[c] > 0) norm += over * over;
    }
    if (norm <= 0) return false;
    for (std::size_t c = 0; c < classes_; ++c)
      price[c] = std::max(0.0, price[c] + length * gap * (use_[c] - room_[c]) / norm);
    return true;
  }

  const fleet& of_;
  std::size_t classes_;
  std::vector<double> room_, use_, priced_;
};

class walking {
 public:
  walking(fleet& of, const class_prices* guide)
      : of_(of), guide_(guide), open_(of.classes.size(), 0), sweeps_(of.classes.size(), 0) {}

  std::optional<placed> run() {
    placed where;
    where.reserve(of_.bytes.size());
    std::uint32_t at = nowhere;
    for (std::uint32_t p = 0; p < of_.bytes.size(); ++p) {
      at = of_.pinned[p] != nowhere ? of_.pinned[p] : choose(p, at);
      if (at == nowhere) return std::nullopt;
      if (of_.pinned[p] == nowhere) of_.room.put(at, of_.bytes[p]);
      where.push_back(at);
    }
    return where;
  }

 private:
  std::uint32_t choose(std::uint32_t p, std::uint32_t at) {
    std::uint32_t best = nowhere;
    double least = never;
    const auto consider = [&](std::uint32_t d) {
      const std::size_t c = of_.class_of[d];
      double promise = of_.cost(p, c) + of_.crossing(p, at, d);
      if (guide_ != nullptr)
        promise += guide_->price[c] * static_cast<double>(of_.bytes[p]) +
                   guide_->to_go[p * of_.classes.size() + c];
      if (promise >= least) return;
      least = promise;
      best = d;
    };
    if (at != nowhere && of_.may(p, at)) consider(at);
    for (std::size_t c = 0; c < of_.classes.size(); ++c)
      if (const std::uint32_t d = open_device(p, c); d != nowhere) consider(d);
    return best;
  }

  // The first device of the class, from the one that was open last, that has room.
  std::uint32_t open_device(std::uint32_t p, std::size_t c) {
    const std::vector<std::uint32_t>& devices = of_.classes[c].devices;
    while (sweeps_[c] < most_sweeps) {
      for (; open_[c] < devices.size(); ++open_[c])
        if (of_.may(p, devices[open_[c]])) return devices[open_[c]];
      open_[c] = 0;
      ++sweeps_[c];
    }
    return nowhere;
  }

  fleet& of_;
  const class_prices* guide_;
  std::vector<std::size_t> open_;
  std::vector<std::uint32_t> sweeps_;
};

// The largest part first, each on the device that it fills best, fast classes first: where the walk
// finds no room for all.
std::optional<placed> fit_tightly(fleet& of) {
  std::vector<std::set<std::pair<std::int64_t, std::uint32_t>>> by_room(of.classes.size());
  std::vector<std::size_t> order(of.classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto speed = [&](std::size_t c) {
    double sum = 0;
    for (std::size_t w = 0; w * of.classes.size() < of.costs.size(); ++w)
      sum += of.costs[w * of.classes.size() + c];
    return sum + of.a_byte[c];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return speed(a) < speed(b); });
  for (std::size_t c = 0; c < of.classes.size(); ++c)
    for (std::uint32_t d : of.classes[c].devices) by_room[c].emplace(of.room.own(d), d);
  std::vector<std::uint32_t> parts(of.bytes.size());
  std::iota(parts.begin(), parts.end(), 0U);
  std::stable_sort(parts.begin(), parts.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return of.bytes[a] > of.bytes[b]; });
  placed where = of.pinned;
  for (std::uint32_t p : parts) {
    for (std::size_t i = 0; i < order.size() && where[p] == nowhere; ++i) {
      auto& rooms = by_room[order[i]];
      auto at = rooms.lower_bound({of.bytes[p], 0});
      while (at != rooms.end() && !of.may(p, at->second)) ++at;
      if (at == rooms.end()) continue;
      where[p] = at->second;
      rooms.erase(at);
      of.room.put(where[p], of.bytes[p]);
      rooms.emplace(of.room.own(where[p]), where[p]);
    }
    if (where[p] == nowhere) return std::nullopt;
  }
  return where;
}

double cost_of(const fleet& of, const placed& where) {
  double sum = 0;
  std::uint32_t before = nowhere;
  for (std::uint32_t p = 0; p < where.size(); ++p) {
    sum += of.cost(p, of.class_of[where[p]]) + of.crossing(p, before, where[p]);
    before = where[p];
  }
  return sum;
}

}  // namespace

fleet_outcome place_on_fleet(const request& r, std::uint32_t rank, bool last,
                             std::uint32_t rounds) {
  fleet whole(r, rank, last);
  fleet_outcome out;
  const auto take = [&](std::optional<placed> found) {
    if (!found) return;
    const double cost = cost_of(whole, *found);
    if (out.where && cost >= out.cost) return;
    out.where = std::move(found);
    out.cost = cost;
  };
  const fleet_rooms room = whole.room;
  take(walking(whole, nullptr).run());
  whole.room = room;
  if (!out.where) {
    take(fit_tightly(whole));
    whole.room = room;
  }
  class_prices prices(whole);
  double upper = out.where ? out.cost : 0;
  if (!out.where)
    for (std::uint32_t p = 0; p < whole.bytes.size(); ++p) {
      double worst = 0;
      for (std::size_t c = 0; c < whole.classes.size(); ++c)
        worst = std::max(worst, whole.cost(p, c));
      upper += worst + std::max(whole.near, whole.far);
    }
  prices.find(rounds, upper);
  out.bound = prices.bound;
  take(walking(whole, &prices).run());
  return out;
}

}  // namespace terrane::policies::placement
