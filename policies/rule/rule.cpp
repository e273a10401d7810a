#include "policies/rule/rule.hpp"

#include <algorithm>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

// A range that ends before it begins passes midnight, or Sunday. A time of day ends before its
// upper limit, a day of the week is a whole day.
bool in_range(const term& t, double value) {
  const bool before_end =
      metric(t.metric).measured_in == unit::weekday ? value < t.upper + 1 : value < t.upper;
  return t.limit <= t.upper ? value >= t.limit && before_end : value >= t.limit || before_end;
}

}  // namespace

bool compares(const term& t, double value) {
  switch (t.compare) {
    case comparison::above:
      return value > t.limit;
    case comparison::below:
      return value < t.limit;
    case comparison::is:
      return (value != 0) == (t.limit != 0);
    case comparison::within:
      return in_range(t, value);
    case comparison::outside:
      return !in_range(t, value);
  }
  return false;
}

std::string limit_text(const term& t) {
  const unit u = metric(t.metric).measured_in;
  if (t.compare == comparison::is) return format_quantity(t.limit, u);
  std::string text = std::string(name_of(t.compare)) + " " + format_quantity(t.limit, u);
  const bool ranged = t.compare == comparison::within || t.compare == comparison::outside;
  return ranged ? text + "-" + format_quantity(t.upper, u) : text;
}

const source_location& place_of(const rule& r, policy_key key) {
  const auto at = std::ranges::find(r.places, key, &std::pair<policy_key, source_location>::first);
  return at == r.places.end() ? r.where : at->second;
}

void name_devices(rule& r) {
  const bool of_devices =
      r.for_each == scope::device || r.for_each == scope::gpu || r.for_each == scope::cpu;
  if (of_devices)
    for (std::string& name : r.only) name = device_pattern(std::move(name));
  r.quota.on = device_pattern(std::move(r.quota.on));
  auto* action = std::get_if<declarative_action>(&r.action);
  if (action == nullptr) return;
  for (std::vector<target_choice>* list : {&action->from, &action->to})
    for (target_choice& t : *list)
      if (t.kind == target_kind::device) t.device = device_pattern(std::move(t.device));
}

}  // namespace terrane::policies
