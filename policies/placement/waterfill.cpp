#include "policies/placement/waterfill.hpp"

#include <algorithm>
#include <numeric>

namespace terrane::policies::placement {

std::vector<std::uint32_t> fastest_first(const instance& of) {
  std::vector<double> sums(of.devices, 0);
  for (std::uint32_t p = 0; p < of.parts; ++p)
    for (std::uint32_t d = 0; d < of.devices; ++d)
      sums[d] += std::min(of.cost_of(p, d), of.most_cost);
  std::vector<std::uint32_t> order(of.devices);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return sums[a] < sums[b]; });
  return order;
}

std::optional<placed> pour(const instance& of, const std::vector<std::uint32_t>& order) {
  room_book book(of);
  placed where;
  std::size_t at = 0;
  for (std::uint32_t p = 0; p < of.parts; ++p) {
    std::size_t tried = 0;
    std::size_t place = at;
    while (tried < order.size() && !book.fits(p, order[place])) {
      place = (place + 1) % order.size();
      ++tried;
    }
    if (tried == order.size()) return std::nullopt;
    book.put(p, order[place]);
    where.push_back(order[place]);
    at = place;
  }
  return where;
}

std::optional<placed> pour_largest_first(const instance& of,
                                         const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> parts(of.parts);
  std::iota(parts.begin(), parts.end(), 0U);
  std::stable_sort(parts.begin(), parts.end(), [&](std::uint32_t a, std::uint32_t b) {
    return of.alone_bytes(a) > of.alone_bytes(b);
  });
  room_book book(of);
  placed where(of.parts, 0);
  for (std::uint32_t p : parts) {
    const auto at =
        std::find_if(order.begin(), order.end(), [&](std::uint32_t d) { return book.fits(p, d); });
    if (at == order.end()) return std::nullopt;
    book.put(p, *at);
    where[p] = *at;
  }
  return where;
}

}  // namespace terrane::policies::placement
