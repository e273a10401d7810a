#include "policies/placement/planner.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "policies/placement/beam.hpp"
#include "policies/placement/fleet.hpp"
#include "policies/placement/improve.hpp"
#include "policies/placement/notes.hpp"
#include "policies/placement/obstacles.hpp"
#include "policies/placement/relaxation.hpp"
#include "policies/placement/search.hpp"
#include "policies/placement/waterfill.hpp"

namespace terrane::policies::placement {
namespace {

// Small enough to look through nearly all of it.
constexpr std::size_t small = 64;
constexpr std::uint32_t first_improvements = 3;
// A gap to the bound that is left alone.
constexpr double close_enough = 1e-7;

struct found {
  placed where;
  double cost = never;
  double bound = 0;
  bool complete = false;  // none is better; where `where` is empty: there is none
};

// Of few devices: prices, a beam, small changes and a search, each beginning where the last ended.
class dense_planning {
 public:
  dense_planning(const instance& of, const effort& most) : of_(of), most_(most) {}

  found run(const placed& now) {
    start(now);
    relaxation guide = relax(of_, best_.cost, most_.rounds, first_prices());
    follow(guide);
    if (is_small() && !is_close(guide.bound)) {
      // With a known cost the prices get better, and with them the beam.
      relaxation again = relax(of_, best_.cost, most_.rounds, guide.price);
      follow(again);
      if (again.bound > guide.bound) guide = std::move(again);
    }
    best_.bound = guide.bound;
    best_.complete = is_close(guide.bound) || guide.bound > of_.most_cost;
    if (!best_.complete) look_through(guide);
    return std::move(best_);
  }

 private:
  bool is_close(double bound) const {
    return best_.cost < never && best_.cost - bound <= close_enough * best_.cost;
  }

  bool is_small() const { return std::size_t{of_.parts} * of_.devices <= small; }

  // Of what is found, only the best is worth the last small changes.
  void take(const std::optional<placed>& where) {
    if (!where || where->empty()) return;
    placed better = improve(of_, *where, std::min(first_improvements, most_.improvements));
    const double cost = of_.cost_of(better);
    if (cost >= best_.cost) return;
    best_.cost = cost;
    best_.where = std::move(better);
  }

  void improve_best() {
    if (best_.where.empty()) return;
    best_.where = improve(of_, std::move(best_.where), most_.improvements);
    best_.cost = of_.cost_of(best_.where);
  }

  void start(const placed& now) {
    if (now.size() == of_.parts && is_legal(of_, now)) take(now);
    const std::vector<std::uint32_t> order = fastest_first(of_);
    take(pour(of_, order));
    if (best_.where.empty()) take(pour_largest_first(of_, order));
  }

  // What a byte saves, about, on a device that is faster than the slowest that is needed.
  std::vector<double> first_prices() const {
    std::vector<double> price(of_.devices, 0), sums(of_.devices, 0);
    if (best_.where.empty()) return price;
    double bytes = 0;
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      bytes += static_cast<double>(of_.bytes[p]);
      for (std::uint32_t d = 0; d < of_.devices; ++d)
        sums[d] += std::min(of_.cost_of(p, d), of_.most_cost);
    }
    double slowest = 0;
    for (std::uint32_t d : best_.where) slowest = std::max(slowest, sums[d]);
    for (std::uint32_t d = 0; d < of_.devices && bytes > 0; ++d)
      price[d] = 0.7 * std::max(0.0, slowest - sums[d]) / bytes;
    return price;
  }

  // At the right prices two ways of spilling are equally good, and a beam that takes the one that
  // keeps room long runs out of it at the end; at higher prices it has some left, which the small
  // changes then use.
  void follow(const relaxation& guide) {
    constexpr std::array<double, 2> raised = {1, 1.2};
    if (is_close(guide.bound)) return;
    const found before = std::exchange(best_, {});
    for (double by : raised) {
      std::vector<double> price = guide.price;
      for (double& p : price) p *= by;
      take(follow_beam(of_, by == 1 ? guide : at_prices(of_, price), most_.width));
    }
    improve_best();
    if (best_.cost >= before.cost) best_ = before;
  }

  void look_through(const relaxation& guide) {
    const searched s =
        search(of_, guide, best_.cost, is_small() ? most_.steps_when_small : most_.steps);
    best_.complete = s.complete;
    if (s.best.empty()) return;
    best_.where = s.best;
    best_.cost = s.cost;
    if (!s.complete) improve_best();
  }

  const instance& of_;
  const effort& most_;
  found best_;
};

found plan_within(const request& r, std::uint32_t rank, bool last, const effort& most,
                  const placed& now) {
  if (r.devices.size() <= most_dense_devices)
    return dense_planning(make_instance(r, rank, last), most).run(now);
  const fleet_outcome f = place_on_fleet(r, rank, last, most.rounds);
  found out;
  out.bound = f.bound;
  if (f.where) {
    out.where = *f.where;
    out.cost = f.cost;
  }
  if (last || now.empty() || !check(r, now)) return out;
  if (const double cost = predict(r, now).token_s; cost < out.cost) {
    out.where = now;
    out.cost = cost;
  }
  return out;
}

std::vector<std::uint32_t> ranks_of(const request& r) {
  std::set<std::uint32_t> ranks;
  for (const device_supply& d : r.devices) ranks.insert(d.rank);
  return {ranks.begin(), ranks.end()};
}

// Whether the devices up to the rank hold the bytes by sum.
bool may_suffice(const request& r, std::uint32_t rank) {
  double room = 0, bytes = 0;
  std::vector<std::uint8_t> seen(r.parts.size(), 0);
  std::vector<std::uint8_t> pinned(r.parts.size(), 0);
  for (const pin& p : r.pins) pinned[p.part] = 1;
  const std::vector<std::uint64_t> rooms = room_bytes(r);
  for (std::size_t d = 0; d < rooms.size(); ++d)
    if (r.devices[d].rank <= rank) room += static_cast<double>(rooms[d]);
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    if (pinned[p] != 0) continue;
    bytes += static_cast<double>(own_bytes(r, p));
    const std::int32_t kind = r.parts[p].shared;
    if (kind >= 0 && seen[static_cast<std::size_t>(kind)]++ == 0)
      bytes += static_cast<double>(shared_bytes(r, p));
  }
  return bytes <= room;
}

outcome<answer> plan_by_rank(const request& r, const effort& most, const placed& now) {
  const std::vector<std::uint32_t> ranks = ranks_of(r);
  found best;
  bool last = false;
  for (std::size_t i = 0; i < ranks.size() && best.where.empty(); ++i) {
    if (!may_suffice(r, ranks[i])) continue;
    last = i > 0;
    best = plan_within(r, ranks[i], last, most, now);
  }
  if (best.where.empty()) return tl::unexpected<refusal>(why_not(r));
  answer out;
  out.where = std::move(best.where);
  out.predicted = predict(r, out.where);
  // What the last rank adds to the cost is no time: how far off the bound is, is.
  const double gap = best.complete ? 0 : std::max(0.0, best.cost - best.bound);
  out.bound_s = last && !best.complete ? 0 : std::max(0.0, out.predicted.token_s - gap);
  out.exact = best.complete;
  out.notes = device_notes(r, out.predicted);
  return out;
}

}  // namespace

outcome<answer> plan(const request& r, const effort& most, const placed& now) {
  if (auto ok = check(r); !ok) return tl::unexpected<refusal>(ok.error());
  return plan_by_rank(r, most, now);
}

outcome<placed> place_somehow(const request& r) {
  constexpr effort little = {20, 4, 2, 2'000, 100'000};
  outcome<answer> a = plan(r, little);
  if (!a) return tl::unexpected<refusal>(a.error());
  return std::move(a->where);
}

}  // namespace terrane::policies::placement
