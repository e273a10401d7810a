#include "policies/placement/improve.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace terrane::policies::placement {
namespace {

// Gains smaller than this share of the cost are noise of the sums.
constexpr double least_gain = 1e-10;
// Pairs of parts are tried in models of so many parts; in larger ones a run says nearly as much.
constexpr std::uint32_t most_parts_for_pairs = 64;
// So often the device may change within a run that is moved.
constexpr std::uint32_t most_inside = 3;
// Of a model whose parts all differ, only so many are thought of as leaving.
constexpr std::size_t most_leaving = 2000;

class improving {
 public:
  improving(const instance& of, placed where)
      : of_(of), book_(of), where_(std::move(where)), cost_(of.cost_of(where_)) {
    for (std::uint32_t p = 0; p < of.parts; ++p) book_.put(p, where_[p]);
    times_.resize((of.parts + 1U) * std::size_t{of.devices});
    for (std::uint32_t p = 0; p < of.parts; ++p)
      for (std::uint32_t d = 0; d < of.devices; ++d) {
        const double c = of.cost_of(p, d);
        times_[at(p + 1, d)] = times_[at(p, d)] + (c == never ? 0 : c);  // no run has such a part
      }
  }

  placed run(std::uint32_t most_rounds) {
    for (std::uint32_t i = 0; i < most_rounds; ++i) {
      if (move_runs()) continue;
      if (of_.parts <= most_parts_for_pairs ? swap_a_pair() || make_room() : make_room()) continue;
      if (swap_devices()) continue;
      break;
    }
    return std::move(where_);
  }

 private:
  struct change {
    double gain = 0;
    std::uint32_t begin = 0, end = 0, device = 0;
  };

  std::size_t at(std::uint32_t p, std::uint32_t d) const {
    return std::size_t{p} * of_.devices + d;
  }
  bool is_gain(double gain) const { return gain > least_gain * cost_; }

  double into(std::uint32_t p, std::uint32_t from, std::uint32_t to) const {
    return of_.crossing_into(p, from, to);
  }

  void sum_up() {
    spent_.assign(of_.parts + 1U, 0);
    crossed_.assign(of_.parts + 1U, 0);
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      spent_[p + 1] = spent_[p] + of_.cost_of(p, where_[p]);
      crossed_[p + 1] = crossed_[p] + (p > 0 ? into(p, where_[p - 1], where_[p]) : 0);
    }
  }

  // What parts begin to end - 1 save on `d`. Crossings inside go, those at its ends change.
  double gain_of(std::uint32_t begin, std::uint32_t end, std::uint32_t d) const {
    double gain = spent_[end] - spent_[begin] - (times_[at(end, d)] - times_[at(begin, d)]);
    gain += crossed_[end] - crossed_[begin];
    if (begin > 0) gain -= into(begin, where_[begin - 1], d);
    if (end < of_.parts)
      gain += into(end, where_[end - 1], where_[end]) - into(end, d, where_[end]);
    return gain;
  }

  // Of all runs that begin or end where the device changes, or that are short, the best from each
  // part; as many as are still worth it when the better ones are done.
  bool move_runs() {
    sum_up();
    changes_.assign(of_.parts, {});
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      const bool edge = p == 0 || where_[p] != where_[p - 1];
      for (std::uint32_t d = 0; d < of_.devices; ++d) {
        grow_forward(p, edge ? of_.parts : std::min(p + 2, of_.parts), d);
        if (edge && p > 0) grow_backward(p, d);
      }
    }
    std::erase_if(changes_, [&](const change& c) { return !is_gain(c.gain); });
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const change& a, const change& b) { return a.gain > b.gain; });
    bool any = false;
    for (const change& c : changes_) any = try_change(c) || any;
    return any;
  }

  bool try_change(const change& c) {
    const placed before(where_.begin() + c.begin, where_.begin() + c.end);
    const double cost = cost_between(c.begin, c.end);
    for (std::uint32_t p = c.begin; p < c.end; ++p) put(p, c.device);
    const double gain = cost - cost_between(c.begin, c.end);
    if (is_gain(gain) && book_.left(c.device) >= 0) {
      cost_ -= gain;
      return true;
    }
    for (std::uint32_t p = c.begin; p < c.end; ++p) put(p, before[p - c.begin]);
    return false;
  }

  // Of these parts, and of the crossings into them and out of the last.
  double cost_between(std::uint32_t begin, std::uint32_t end) const {
    double sum = 0;
    for (std::uint32_t p = begin; p < end; ++p) {
      sum += of_.cost_of(p, where_[p]);
      if (p > 0) sum += into(p, where_[p - 1], where_[p]);
    }
    return end < of_.parts ? sum + into(end, where_[end - 1], where_[end]) : sum;
  }

  void grow_forward(std::uint32_t begin, std::uint32_t most_end, std::uint32_t d) {
    room_left_ = book_.left(d);
    std::uint32_t changes = 0;
    for (std::uint32_t end = begin; end < most_end && takes_in(end, d); ++end) {
      if (end > begin && where_[end] != where_[end - 1] && ++changes > most_inside) return;
      consider(begin, end + 1, d);
    }
  }
  void grow_backward(std::uint32_t end, std::uint32_t d) {
    room_left_ = book_.left(d);
    std::uint32_t changes = 0;
    for (std::uint32_t begin = end; begin > 0 && takes_in(begin - 1, d); --begin) {
      if (begin < end && where_[begin] != where_[begin - 1] && ++changes > most_inside) return;
      consider(begin - 1, end, d);
    }
  }
  // What several parts of a run share is counted with each of them: a run too few, never one too
  // many.
  bool takes_in(std::uint32_t p, std::uint32_t d) {
    if (where_[p] == d) return true;
    if (of_.cost_of(p, d) == never) return false;
    room_left_ -= book_.bytes(p, d);
    return room_left_ >= 0;
  }
  void consider(std::uint32_t begin, std::uint32_t end, std::uint32_t d) {
    const double gain = gain_of(begin, end, d);
    change& best = changes_[begin];
    if (gain > best.gain) best = {gain, begin, end, d};
  }

  void put(std::uint32_t p, std::uint32_t d) {
    if (where_[p] == d) return;
    book_.take(p, where_[p]);
    where_[p] = d;
    book_.put(p, d);
  }

  bool swap_a_pair() {
    for (std::uint32_t p = 0; p < of_.parts; ++p)
      for (std::uint32_t q = p + 1; q < of_.parts; ++q)
        if (where_[p] != where_[q] && try_swap(p, q)) return true;
    return false;
  }

  bool try_swap(std::uint32_t p, std::uint32_t q) {
    const std::uint32_t on_p = where_[p], on_q = where_[q];
    if (of_.cost_of(p, on_q) == never || of_.cost_of(q, on_p) == never) return false;
    const double before = around(p, q);
    std::swap(where_[p], where_[q]);
    const double gain = before - around(p, q);
    std::swap(where_[p], where_[q]);
    if (!is_gain(gain)) return false;
    book_.take(p, on_p);
    book_.take(q, on_q);
    book_.put(p, on_q);
    book_.put(q, on_p);
    if (book_.left(on_p) < 0 || book_.left(on_q) < 0) {
      book_.take(p, on_q);
      book_.take(q, on_p);
      book_.put(p, on_p);
      book_.put(q, on_q);
      return false;
    }
    std::swap(where_[p], where_[q]);
    cost_ -= gain;
    return true;
  }

  // Costs of two parts and of the crossings beside them; p < q.
  double around(std::uint32_t p, std::uint32_t q) const {
    double sum = of_.cost_of(p, where_[p]) + of_.cost_of(q, where_[q]);
    if (p > 0) sum += into(p, where_[p - 1], where_[p]);
    if (p + 1 < of_.parts) sum += into(p + 1, where_[p], where_[p + 1]);
    if (q > p + 1) sum += into(q, where_[q - 1], where_[q]);
    if (q + 1 < of_.parts) sum += into(q + 1, where_[q], where_[q + 1]);
    return sum;
  }

  // One of a device's parts leaves it, so that a part that gains more can come.
  struct exchange {
    double gain = 0;
    std::uint32_t comes = 0, to = 0, leaves = 0, away = 0;
  };

  bool make_room() {
    sum_up();
    rate_single_moves();
    std::vector<exchange> found;
    for (std::uint32_t q = 0; q < of_.parts; ++q)
      for (std::uint32_t to = 0; to < of_.devices; ++to)
        if (to != where_[q] && of_.cost_of(q, to) < never) find_exchange(q, to, found);
    // The gains are of both moves alone; beside each other they may be less.
    std::stable_sort(found.begin(), found.end(),
                     [](const exchange& a, const exchange& b) { return a.gain > b.gain; });
    bool any = false;
    for (const exchange& e : found) any = try_exchange(e) || any;
    return any;
  }

  // Of parts alike on one device (same work, so the same bytes), the one that leaves most cheaply.
  void rate_single_moves() {
    leaving_.clear();
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      if (of_.bytes[p] == 0) continue;  // pinned, or nothing to gain room by
      for (std::uint32_t c = 0; c < of_.devices; ++c) {
        if (c == where_[p] || of_.cost_of(p, c) == never) continue;
        const leave l{where_[p], c, of_.bytes[p], p, gain_of(p, p + 1, c)};
        const auto same = std::find_if(leaving_.begin(), leaving_.end(), [&](const leave& k) {
          return k.from == l.from && k.away == l.away && k.bytes == l.bytes;
        });
        if (same == leaving_.end())
          leaving_.push_back(l);
        else if (l.gain > same->gain)
          *same = l;
      }
      if (leaving_.size() > most_leaving) break;
    }
    std::stable_sort(leaving_.begin(), leaving_.end(),
                     [](const leave& a, const leave& b) { return a.from < b.from; });
    first_leaving_.assign(of_.devices + 1U, leaving_.size());
    for (std::size_t i = leaving_.size(); i-- > 0;) first_leaving_[leaving_[i].from] = i;
    for (std::uint32_t d = of_.devices; d-- > 0;)
      first_leaving_[d] = std::min(first_leaving_[d], first_leaving_[d + 1]);
  }

  void find_exchange(std::uint32_t q, std::uint32_t to, std::vector<exchange>& found) const {
    const double alone = gain_of(q, q + 1, to);
    const std::int64_t bytes = book_.bytes(q, to);
    if (bytes <= book_.left(to)) return;
    exchange best;
    for (std::size_t i = first_leaving_[to]; i < first_leaving_[to + 1]; ++i) {
      const leave& l = leaving_[i];
      if (alone + l.gain <= best.gain || l.bytes + book_.left(to) < bytes) continue;
      const std::int64_t freed = l.away == where_[q] ? of_.bytes[q] : 0;
      if (book_.left(l.away) + freed < l.bytes) continue;
      best = {alone + l.gain, q, to, l.part, l.away};
    }
    if (is_gain(best.gain)) found.push_back(best);
  }

  bool try_exchange(const exchange& e) {
    const std::uint32_t from = where_[e.comes];
    if (from == e.to || where_[e.leaves] != e.to) return false;  // one before it changed that
    const std::uint32_t p = std::min(e.comes, e.leaves), q = std::max(e.comes, e.leaves);
    const double before = around(p, q);
    put(e.comes, e.to);
    put(e.leaves, e.away);
    const double gain = before - around(p, q);
    if (is_gain(gain) && book_.left(e.to) >= 0 && book_.left(e.away) >= 0) {
      cost_ -= gain;
      return true;
    }
    put(e.leaves, e.to);
    put(e.comes, from);
    return false;
  }

  bool swap_devices() {
    for (std::uint32_t a = 0; a < of_.devices; ++a)
      for (std::uint32_t b = a + 1; b < of_.devices; ++b) {
        placed changed = where_;
        for (std::uint32_t& d : changed) d = d == a ? b : d == b ? a : d;
        const double cost = of_.cost_of(changed);
        if (!(cost < never) || !is_gain(cost_ - cost) || !is_legal(of_, changed)) continue;
        for (std::uint32_t p = 0; p < of_.parts; ++p) book_.take(p, where_[p]);
        where_ = std::move(changed);
        for (std::uint32_t p = 0; p < of_.parts; ++p) book_.put(p, where_[p]);
        cost_ = cost;
        return true;
      }
    return false;
  }

  const instance& of_;
  room_book book_;
  placed where_;
  double cost_;
  std::vector<double> times_, spent_, crossed_;  // sums up to a part
  struct leave {
    std::uint32_t from, away;
    std::int64_t bytes;
    std::uint32_t part;
    double gain;  // mostly below 0
  };
  std::vector<leave> leaving_;              // by device that is left
  std::vector<std::size_t> first_leaving_;  // of each device, and the end
  std::vector<change> changes_;             // by the part they begin with
  std::int64_t room_left_ = 0;
};

}  // namespace

placed improve(const instance& of, placed where, std::uint32_t most_rounds) {
  return improving(of, std::move(where)).run(most_rounds);
}

}  // namespace terrane::policies::placement
