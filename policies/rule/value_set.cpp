#include "policies/rule/value_set.hpp"

#include <algorithm>
#include <limits>

namespace terrane::policies {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr double absolute_zero_c = -273.15;
constexpr double day_s = 86'400;
// Truths and days are whole numbers; a piece around each holds no other.
constexpr double half = 0.5;

// Both ends included.
struct range {
  double from, to;
};

range range_of(unit u) {
  switch (u) {
    case unit::ratio:
    case unit::truth:
      return {0, 1};
    case unit::percent:
      return {0, 100};
    case unit::bytes:
    case unit::seconds:
    case unit::tokens:
    case unit::watts:
    case unit::count:
      return {0, unlimited};
    case unit::celsius:
      return {absolute_zero_c, unlimited};
    case unit::time_of_day:
      return {0, day_s};
    case unit::weekday:
      return {1, 7};
  }
  return {-unlimited, unlimited};
}

range range_of(const metric_entry& m) {
  const range all = range_of(m.measured_in);
  return {all.from, m.most.value_or(all.to)};
}

}  // namespace

value_set value_set::possible(metric_id id) {
  const unit u = metric(id).measured_in;
  const bool is_whole = u == unit::truth || u == unit::weekday;
  const range all = range_of(metric(id));
  return value_set({{all.from - (is_whole ? half : 0), all.to + (is_whole ? half : 0)}});
}

value_set value_set::of(const term& t) {
  const unit u = metric(t.metric).measured_in;
  const double around = u == unit::weekday ? half : 0;
  const double from = t.limit - around, to = t.upper + around;
  const bool passes_the_end = t.limit > t.upper;
  std::vector<piece> pieces;
  switch (t.compare) {
    case comparison::above:
      pieces = {{t.limit, unlimited}};
      break;
    case comparison::below:
      pieces = {{-unlimited, t.limit}};
      break;
    case comparison::is:
      pieces = {{t.limit - half, t.limit + half}};
      break;
    case comparison::within:
      if (passes_the_end)
        pieces = {{-unlimited, to}, {from, unlimited}};
      else
        pieces = {{from, to}};
      break;
    case comparison::outside:
      if (passes_the_end)
        pieces = {{to, from}};
      else
        pieces = {{-unlimited, from}, {to, unlimited}};
      break;
  }
  return value_set(std::move(pieces)).meet(possible(t.metric));
}

value_set value_set::meet(const value_set& other) const {
  std::vector<piece> both;
  for (const piece& a : pieces_) {
    for (const piece& b : other.pieces_) {
      const piece common{std::max(a.from, b.from), std::min(a.to, b.to)};
      if (common.from < common.to) both.push_back(common);
    }
  }
  return value_set(std::move(both));
}

bool is_possible(metric_id id, double value) {
  const range all = range_of(metric(id));
  const bool fits = metric(id).measured_in != unit::truth || value == all.from || value == all.to;
  return fits && value >= all.from && value <= all.to;
}

}  // namespace terrane::policies
