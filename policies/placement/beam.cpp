#include "policies/placement/beam.hpp"

#include <algorithm>
#include <vector>

namespace terrane::policies::placement {
namespace {

// Beginnings up to one part, side by side in flat arrays.
struct front {
  std::uint32_t count = 0;
  std::vector<std::uint32_t> device;   // of the last part
  std::vector<double> promise;         // the bound of all that goes on from here
  std::size_t limits;                  // devices, then pools
  std::vector<std::int64_t> left;      // [beginning][limit]
  std::vector<std::uint32_t> used;     // bit d set where d has a part
  std::vector<std::uint32_t> holders;  // [beginning][kind]: bit d set where d holds it

  front(std::uint32_t width, const instance& of)
      : device(width),
        promise(width),
        limits(of.devices + of.pool_room.size()),
        left(width * limits),
        used(width),
        holders(std::size_t{width} * of.shared_kinds) {}
};

struct successor {
  double promise;
  std::uint32_t from, device;
  std::int64_t bytes;
};

class beaming {
 public:
  beaming(const instance& of, const relaxation& guide, std::uint32_t width)
      : of_(of),
        guide_(guide),
        width_(width),
        now_(width, of),
        next_(width, of),
        came_from_(std::size_t{of.parts} * width),
        put_on_(std::size_t{of.parts} * width) {}

  std::optional<placed> run() {
    begin();
    for (std::uint32_t p = 0; p < of_.parts; ++p) {
      expand(p);
      if (successors_.empty()) return std::nullopt;
      keep_best(p);
    }
    return trace();
  }

 private:
  void begin() {
    now_.count = 1;
    const auto pools = std::copy(of_.room.begin(), of_.room.end(), now_.left.begin());
    std::copy(of_.pool_room.begin(), of_.pool_room.end(), pools);
    now_.used[0] = 0;
    for (std::size_t kind = 0; kind < of_.shared_kinds; ++kind) {
      now_.holders[kind] = 0;
      for (std::size_t d = 0; d < of_.devices; ++d)
        if (of_.shared_holders[kind * of_.devices + d] != 0) now_.holders[kind] |= 1U << d;
    }
    now_.promise[0] = 0;
  }

  std::int64_t bytes(std::uint32_t p, std::uint32_t state, std::uint32_t d) const {
    const std::int32_t kind = of_.shared[p];
    if (kind < 0) return of_.bytes[p];
    const std::size_t k = static_cast<std::size_t>(kind);
    const bool held = (now_.holders[state * of_.shared_kinds + k] >> d & 1U) != 0;
    return of_.bytes[p] + (held ? 0 : of_.shared_bytes[k]);
  }

  // What the first part on a device adds to what its pool has to give.
  std::int64_t fee(std::uint32_t state, std::uint32_t d) const {
    return (now_.used[state] >> d & 1U) != 0 ? 0 : of_.fee[d];
  }

  bool has_room(std::uint32_t state, std::uint32_t d, std::int64_t takes) const {
    const std::int64_t* left = &now_.left[state * now_.limits];
    if (takes > left[d]) return false;
    if (of_.pool[d] < 0) return true;
    return takes + fee(state, d) <= left[of_.devices + static_cast<std::size_t>(of_.pool[d])];
  }

  void expand(std::uint32_t p) {
    successors_.clear();
    const std::size_t n = of_.devices;
    for (std::uint32_t s = 0; s < now_.count; ++s) {
      // Of the promise so far, what concerned the parts to come.
      const double before =
          p == 0 ? 0 : now_.promise[s] - guide_.to_go[(p - 1) * n + now_.device[s]];
      for (std::uint32_t d = 0; d < of_.devices; ++d) {
        const double cost = of_.cost_of(p, d);
        if (cost == never) continue;
        const std::int64_t takes = bytes(p, s, d);
        if (!has_room(s, d, takes)) continue;
        const double crossing = p == 0 ? 0 : of_.crossing_into(p, now_.device[s], d);
        const double promise = before + cost + crossing +
                               guide_.price[d] * static_cast<double>(takes) +
                               guide_.to_go[p * n + d];
        successors_.push_back({promise, s, d, takes});
      }
    }
  }

  // Two beginnings that end on the same device with the same room left go on alike: the cheaper
  // one stays.
  bool is_known(const successor& s) const {
    const std::size_t n = now_.limits;
    for (std::uint32_t i = 0; i < next_.count; ++i) {
      if (next_.device[i] != s.device) continue;
      bool same = true;
      // What pools have left follows from what devices have, but for fees.
      for (std::size_t d = 0; d < of_.devices && same; ++d) {
        const std::int64_t left = now_.left[s.from * n + d] - (d == s.device ? s.bytes : 0);
        same = next_.left[i * n + d] == left;
      }
      if (same && next_.used[i] == (now_.used[s.from] | 1U << s.device)) return true;
    }
    return false;
  }

  void keep_best(std::uint32_t p) {
    const std::size_t n = now_.limits;
    const std::size_t most = std::min<std::size_t>(successors_.size(), std::size_t{4} * width_);
    std::partial_sort(successors_.begin(), successors_.begin() + static_cast<std::ptrdiff_t>(most),
                      successors_.end(), [](const successor& a, const successor& b) {
                        if (a.promise != b.promise) return a.promise < b.promise;
                        return a.from != b.from ? a.from < b.from : a.device < b.device;
                      });
    next_.count = 0;
    for (std::size_t i = 0; i < most && next_.count < width_; ++i) {
      const successor& s = successors_[i];
      if (is_known(s)) continue;
      const std::uint32_t at = next_.count++;
      next_.device[at] = s.device;
      next_.promise[at] = s.promise;
      std::copy_n(&now_.left[s.from * n], n, &next_.left[at * n]);
      next_.left[at * n + s.device] -= s.bytes;
      if (const std::int32_t pool = of_.pool[s.device]; pool >= 0)
        next_.left[at * n + of_.devices + static_cast<std::size_t>(pool)] -=
            s.bytes + fee(s.from, s.device);
      next_.used[at] = now_.used[s.from] | 1U << s.device;
      for (std::size_t k = 0; k < of_.shared_kinds; ++k)
        next_.holders[at * of_.shared_kinds + k] = now_.holders[s.from * of_.shared_kinds + k];
      if (of_.shared[p] >= 0)
        next_.holders[at * of_.shared_kinds + static_cast<std::size_t>(of_.shared[p])] |=
            1U << s.device;
      came_from_[std::size_t{p} * width_ + at] = s.from;
      put_on_[std::size_t{p} * width_ + at] = s.device;
    }
    std::swap(now_, next_);
  }

  // Prices are no costs: of those that arrived, the cheapest in truth.
  std::optional<placed> trace() const {
    placed best;
    double least = never;
    for (std::uint32_t s = 0; s < now_.count; ++s) {
      placed where(of_.parts);
      std::uint32_t at = s;
      for (std::uint32_t p = of_.parts; p-- > 0;) {
        where[p] = put_on_[std::size_t{p} * width_ + at];
        at = came_from_[std::size_t{p} * width_ + at];
      }
      const double cost = of_.cost_of(where);
      if (cost >= least) continue;
      least = cost;
      best = std::move(where);
    }
    return best;
  }

  const instance& of_;
  const relaxation& guide_;
  std::uint32_t width_;
  front now_, next_;
  std::vector<successor> successors_;
  std::vector<std::uint32_t> came_from_, put_on_;  // [part][beginning]
};

}  // namespace

std::optional<placed> follow_beam(const instance& of, const relaxation& guide,
                                  std::uint32_t width) {
  return beaming(of, guide, width).run();
}

}  // namespace terrane::policies::placement
