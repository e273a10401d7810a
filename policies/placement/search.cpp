#include "policies/placement/search.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace terrane::policies::placement {
namespace {

// What is closer to the best than this is as good.
constexpr double as_good = 1e-9;

class searching {
 public:
  searching(const instance& of, const relaxation& guide, double known, std::uint64_t most_steps)
      : of_(of), guide_(guide), book_(of), most_steps_(most_steps), where_(of.parts, 0) {
    out_.cost = known;
    // Bytes from a part on, at least: what has to find room in all.
    const std::vector<std::int64_t> bytes = least_bytes(of);
    bytes_from_.assign(of.parts + 1U, 0);
    for (std::uint32_t p = of.parts; p-- > 0;) bytes_from_[p] = bytes_from_[p + 1] + bytes[p];
    least_part_.assign(of.parts + 1U, std::numeric_limits<std::int64_t>::max());
    for (std::uint32_t p = of.parts; p-- > 0;)
      least_part_[p] = std::min(least_part_[p + 1], of.bytes[p]);
  }

  searched run() {
    go_on(0, -guide_.room_worth);
    out_.complete = out_.steps < most_steps_;
    return std::move(out_);
  }

 private:
  struct choice {
    double promise;
    std::uint32_t device;
    double spent;
  };

  bool is_worth(double promise) const {
    return out_.cost == never || promise < out_.cost * (1 - as_good);
  }

  // Whether what is left can hold the parts from p on, by sum; room too small for any does not
  // count.
  bool has_room(std::uint32_t p) const {
    std::int64_t sum = 0;
    for (std::uint32_t d = 0; d < of_.devices; ++d)
      if (book_.left(d) >= least_part_[p]) sum += book_.left(d);
    return bytes_from_[p] <= sum;
  }

  // `spent`: costs and prices of the parts before p, less what all room is worth.
  void go_on(std::uint32_t p, double spent) {
    if (p == of_.parts) return finish();
    if (!has_room(p)) return;
    std::array<choice, most_dense_devices> choices;
    std::size_t count = 0;
    for (std::uint32_t d = 0; d < of_.devices; ++d) {
      if (!book_.fits(p, d)) continue;
      double after =
          spent + of_.cost_of(p, d) + guide_.price[d] * static_cast<double>(book_.bytes(p, d));
      if (p > 0) after += of_.crossing_into(p, where_[p - 1], d);
      const double promise = after + guide_.to_go[p * std::size_t{of_.devices} + d];
      choices[count++] = {promise, d, after};
    }
    std::sort(choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(count),
              [](const choice& a, const choice& b) {
                return a.promise != b.promise ? a.promise < b.promise : a.device < b.device;
              });
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_worth(choices[i].promise) || ++out_.steps >= most_steps_) return;
      where_[p] = choices[i].device;
      book_.put(p, where_[p]);
      go_on(p + 1, choices[i].spent);
      book_.take(p, choices[i].device);
      if (out_.steps >= most_steps_) return;
    }
  }

  void finish() {
    const double cost = of_.cost_of(where_);
    if (!is_worth(cost)) return;
    out_.cost = cost;
    out_.best = where_;
  }

  const instance& of_;
  const relaxation& guide_;
  room_book book_;
  std::uint64_t most_steps_;
  placed where_;
  std::vector<std::int64_t> bytes_from_, least_part_;
  searched out_;
};

}  // namespace

searched search(const instance& of, const relaxation& guide, double known,
                std::uint64_t most_steps) {
  return searching(of, guide, known, most_steps).run();
}

}  // namespace terrane::policies::placement
