#include "policies/placement/relaxation.hpp"

#include <algorithm>
#include <cmath>

namespace terrane::policies::placement {
namespace {

// Found by trying, on models of 8 devices and 200 parts: with these 120 rounds come within a
// hundredth of the best bound.
constexpr double first_length = 0.3, newest_share = 0.3;
constexpr std::uint32_t patience = 7;  // rounds without a better bound, then steps are halved

class relaxing {
 public:
  relaxing(const instance& of, const std::vector<double>& from)
      : of_(of),
        bytes_(least_bytes(of)),
        room_(of.room.begin(), of.room.end()),
        price_(of.devices + of.pool_room.size(), 0),
        use_(price_.size(), 0),
        mean_(price_.size(), 0) {
    std::ranges::copy(from, price_.begin());
    add_pools();
    to_go_.resize(std::size_t{of.parts} * of.devices);
    priced_.resize(of.devices);
    // Transposed, so that the inner loop runs along memory.
    into_.resize(of.crossing.size());
    for (std::size_t a = 0; a < of.devices; ++a)
      for (std::size_t b = 0; b < of.devices; ++b)
        into_[b * of.devices + a] = of.crossing[a * of.devices + b];
  }

  relaxation run(double upper, std::uint32_t rounds) {
    relaxation best;
    best.bound = -never;
    if (upper == never) upper = of_.most_cost;
    double length = first_length;
    std::uint32_t without_gain = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const double bound = pass();
      if (bound > best.bound) {
        best = {bound, all_in_, room_worth_, to_go_, path_};
        without_gain = 0;
      } else if (++without_gain == patience) {
        length /= 2;
        without_gain = 0;
      }
      if (bound > of_.most_cost) break;  // there is no legal placement
      if (!step(std::max(upper - bound, 1e-6 * upper), length)) break;
    }
    return best;
  }

 private:
  // A pool's room is one more limit. Its first user pays a fee: the least of its devices' at least.
  void add_pools() {
    std::vector<std::int64_t> fee(of_.pool_room.size(), std::numeric_limits<std::int64_t>::max());
    for (std::uint32_t d = 0; d < of_.devices; ++d)
      if (of_.pool[d] >= 0) {
        std::int64_t& least = fee[static_cast<std::size_t>(of_.pool[d])];
        least = std::min(least, of_.fee[d]);
      }
    for (std::size_t i = 0; i < fee.size(); ++i)
      room_.push_back(static_cast<double>(std::max<std::int64_t>(0, of_.pool_room[i] - fee[i])));
  }

  // Calls f with each limit that bytes on the device count against.
  template <class F>
  void for_each_limit(std::uint32_t d, F f) const {
    f(std::size_t{d});
    if (of_.pool[d] >= 0) f(of_.devices + static_cast<std::size_t>(of_.pool[d]));
  }

  void sum_prices() {
    all_in_.assign(of_.devices, 0);
    for (std::uint32_t d = 0; d < of_.devices; ++d)
      for_each_limit(d, [&](std::size_t limit) { all_in_[d] += price_[limit]; });
    room_worth_ = 0;
    for (std::size_t i = 0; i < price_.size(); ++i) room_worth_ += price_[i] * room_[i];
  }

  // Costs to go from the end to the beginning, then the path itself. Returns the bound.
  double pass() {
    sum_prices();
    const std::size_t n = of_.devices;
    std::fill(to_go_.end() - static_cast<std::ptrdiff_t>(n), to_go_.end(), 0.0);
    for (std::uint32_t p = of_.parts - 1; p > 0; --p) {
      weigh(p);
      double* before = &to_go_[(p - 1) * n];
      if (of_.begins[p] != 0) {
        std::fill(before, before + n, *std::min_element(priced_.begin(), priced_.end()));
        continue;
      }
      std::fill(before, before + n, never);
      for (std::size_t to = 0; to < n; ++to) {
        if (priced_[to] == never) continue;
        const double* into = &into_[to * n];
        const double rest = priced_[to];
        for (std::size_t d = 0; d < n; ++d) {
          const double sum = into[d] + rest;
          before[d] = sum < before[d] ? sum : before[d];
        }
      }
    }
    return trace() - room_worth_;
  }

  // priced_[d]: of part p and all after it with p on d.
  void weigh(std::uint32_t p) {
    const double bytes = static_cast<double>(bytes_[p]);
    const std::size_t n = of_.devices;
    for (std::size_t d = 0; d < n; ++d)
      priced_[d] = of_.cost[p * n + d] + all_in_[d] * bytes + to_go_[p * n + d];
  }

  double trace() {
    path_.resize(of_.parts);
    std::fill(use_.begin(), use_.end(), 0);
    double all = 0;
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      weigh(p);
      if (p > 0)
        for (std::uint32_t d = 0; d < of_.devices; ++d)
          priced_[d] += of_.crossing_into(p, path_[p - 1], d);
      const auto least = std::min_element(priced_.begin(), priced_.end());
      if (p == 0) all = *least;
      path_[p] = static_cast<std::uint32_t>(least - priced_.begin());
      for_each_limit(path_[p],
                     [&](std::size_t limit) { use_[limit] += static_cast<double>(bytes_[p]); });
    }
    return all;
  }

  // False when prices are right: nothing is asked for that is not there, nothing paid for left. One
  // path asks for everything on one device, the next for everything on another: the step goes along
  // a mean of what the last ones asked for.
  bool step(double gap, double length) {
    double norm = 0;
    for (std::size_t d = 0; d < use_.size(); ++d) {
      const double over = use_[d] - room_[d];
      mean_[d] = has_mean_ ? newest_share * over + (1 - newest_share) * mean_[d] : over;
      if (mean_[d] > 0 || price_[d] > 0) norm += mean_[d] * mean_[d];
    }
    has_mean_ = true;
    if (norm <= 0) return false;
    for (std::size_t d = 0; d < use_.size(); ++d)
      price_[d] = std::max(0.0, price_[d] + length * gap * mean_[d] / norm);
    return true;
  }

  const instance& of_;
  std::vector<std::int64_t> bytes_;
  std::vector<double> room_, price_, use_, mean_;  // by limit: devices, then pools
  std::vector<double> all_in_;                     // price by device, its pool's with it
  double room_worth_ = 0;
  std::vector<double> to_go_, priced_, into_;
  placed path_;
  bool has_mean_ = false;
};

}  // namespace

std::vector<std::int64_t> least_bytes(const instance& of) {
  std::vector<std::int64_t> out = of.bytes;
  std::vector<std::uint8_t> seen(of.shared_kinds, 0);
  for (std::size_t kind = 0; kind < of.shared_kinds; ++kind)
    for (std::size_t d = 0; d < of.devices; ++d)
      if (of.shared_holders[kind * of.devices + d] != 0) seen[kind] = 1;
  for (std::uint32_t p = 0; p < of.parts; ++p) {
    if (of.shared[p] < 0) continue;
    const auto kind = static_cast<std::size_t>(of.shared[p]);
    if (seen[kind]++ == 0) out[p] += of.shared_bytes[kind];
  }
  return out;
}

relaxation relax(const instance& of, double upper, std::uint32_t rounds,
                 const std::vector<double>& from) {
  return relaxing(of, from).run(upper, rounds);
}

relaxation at_prices(const instance& of, const std::vector<double>& price) {
  return relaxing(of, price).run(never, 1);
}

}  // namespace terrane::policies::placement
