#include "policies/planner/promotion.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "policies/placement/difference.hpp"
#include "policies/placement/notes.hpp"
#include "policies/placement/planner.hpp"
#include "policies/placement/sequence.hpp"
#include "policies/planner/holds.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/under_way.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/saturating.hpp"

namespace terrane::policies {
namespace {

using placement::placed;

// Predictions are no better than this: smaller gains would be chased for ever.
constexpr double least_gain = 0.03;

}  // namespace

// What is on such a device stays, and nothing comes.
void promotion::leave_alone(std::uint32_t device, const std::string& why) {
  placement::request& r = running_.asked;
  if (std::ranges::find(running_.where, device) == running_.where.end()) {
    r.devices[device].left_out = why;
    return;
  }
  for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
    if (running_.where[p] == device)
      r.pins.push_back({p, device, why});
    else
      r.exclusions.push_back({p, device, why});
  }
}

// No more may come than filters let through, or what leaves to make room would leave for nothing.
void promotion::bound(const device_question& allowed) {
  placement::request& r = running_.asked;
  const placement::prediction held = placement::predict(r, running_.where);
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
    const allowance a = allowed(now_.devices[d]);
    const auto more = static_cast<std::uint64_t>(std::max(0.0, a.room_bytes));
    placement::device_supply& to = r.devices[d];
    to.budget_bytes =
        std::min(to.budget_bytes, held.devices[d].held_bytes() + to.reserve_bytes + more);
    if (!a.left_alone.empty()) leave_alone(d, a.left_alone);
  }
}

void promotion::pin_what_stays(const rule& r) {
  placement::request& asked = running_.asked;
  for (std::uint32_t p = 0; p < asked.parts.size(); ++p) {
    const part_state& part = now_.parts[p];
    const bool fresh =
        part.moved_ms != reading::never && now_.time_ms - part.moved_ms < r.min_stay_ms;
    const subject_ref subject{subject_kind::part, part.name};
    const bool stays = part.pinned || part.placed_by_user || !part.movable || fresh ||
                       state_.held.contains(subject) || is_under_way(now_, state_, subject) ||
                       is_pinned_for_flapping(now_, state_, subject);
    if (stays) asked.pins.push_back({p, running_.where[p], "it stays where it is"});
  }
}

void promotion::rule_out_failures() {
  placement::request& asked = running_.asked;
  for (const auto& [key, failed] : state_.failures) {
    if (key.first.kind != subject_kind::part || now_.time_ms >= failed.retry_ms) continue;
    const auto part = std::ranges::find(asked.parts, key.first.name, &placement::part_demand::name);
    const auto device =
        std::ranges::find(asked.devices, key.second, &placement::device_supply::name);
    if (part == asked.parts.end() || device == asked.devices.end()) continue;
    const auto p = static_cast<std::uint32_t>(part - asked.parts.begin());
    const auto d = static_cast<std::uint32_t>(device - asked.devices.begin());
    if (running_.where[p] != d) asked.exclusions.push_back({p, d, "moving it there failed lately"});
  }
}

// All that moves, against all that is gained while it stays. What was not measured decides nothing.
std::string promotion::why_not_worth(double gain_s, const placed& target) const {
  if (now_.tokens_per_s <= 0) return {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> ways;
  const std::vector<bool> with_shared =
      placement::brings_shared(running_.asked, running_.where, target);
  for (std::uint32_t p = 0; p < target.size(); ++p) {
    if (target[p] == running_.where[p]) continue;
    const part_state& part = now_.parts[p];
    const bool without = part.shared >= 0 && !with_shared[p];
    ways[{running_.where[p], target[p]}] +=
        subtract_saturating(moving_bytes(part), without ? part.shared_bytes : 0);
  }
  double cost_ms = 0;
  for (const auto& [way, bytes] : ways) {
    const link_state* link =
        find_link(now_, now_.devices[way.first].name, now_.devices[way.second].name);
    if (link == nullptr || link->bytes_per_s <= 0) return {};
    cost_ms += link->pause_ms + static_cast<double>(bytes) / link->bytes_per_s * 1000;
  }
  const double gain_ms = gain_s * now_.tokens_per_s * static_cast<double>(promoted_stay_ms);
  if (gain_ms > cost_ms) return {};
  return "the moves would cost " + placement::milliseconds(cost_ms / 1000) + " and gain " +
         placement::milliseconds(gain_ms / 1000) + " in the " + format_duration(promoted_stay_ms) +
         " that they are expected to stay";
}

void promotion::add_moves(const placed& target, const std::string& reason, proposal& to) const {
  const placement::request& r = running_.asked;
  const auto add = [&](std::uint32_t p) {
    to.wanted.push_back({verb::move,
                         subject_kind::part,
                         r.parts[p].name,
                         {{target_kind::device, r.devices[target[p]].name}},
                         0,
                         {},
                         reason});
  };
  const auto in_order = placement::find_sequence(r, {running_.where, {}}, target);
  std::vector<std::uint8_t> listed(target.size(), 0);
  if (in_order)
    for (const placement::move_step& step : in_order->steps)
      for (const placement::step_move& m : step.moves)
        if (m.to == target[m.part] && listed[m.part]++ == 0) add(m.part);
  for (std::uint32_t p = 0; p < target.size(); ++p)
    if (target[p] != running_.where[p] && listed[p] == 0) add(p);
}

// What the load expected of the devices that parts come to, and what is measured.
void promotion::add_slack_notes(const placed& target, proposal& to) const {
  std::set<std::uint32_t> told;
  for (std::uint32_t p = 0; p < target.size(); ++p) {
    const std::uint32_t d = target[p];
    const std::uint64_t expected = now_.devices[d].scratch_bytes;
    const std::uint64_t measured = running_.asked.devices[d].fee_bytes;
    if (d == running_.where[p] || expected == 0 || expected == measured) continue;
    if (!told.insert(d).second) continue;
    to.notes.push_back(now_.devices[d].name + " takes " + format_bytes(measured) +
                       " beside its parts; " + format_bytes(expected) + " were expected.");
  }
}

proposal promotion::propose(const rule& r, const device_question& allowed) {
  proposal out;
  auto found = placement::running_in(now_);
  if (!found) {
    out.notes.push_back("Nothing is promoted: " + found.error() + ".");
    return out;
  }
  running_ = std::move(*found);
  token_ms_now_ = placement::predict(running_.asked, running_.where).token_s * 1000;
  bound(allowed);
  pin_what_stays(r);
  rule_out_failures();
  const auto best = placement::plan(running_.asked, {}, running_.where);
  if (!best) {
    out.notes.push_back("Nothing is promoted: " + best.error().message + ".");
    return out;
  }
  for (std::size_t d = 0; d < best->notes.size(); ++d)
    if (!best->notes[d].used)
      out.notes.push_back(running_.asked.devices[d].name + " is " + best->notes[d].reason + ".");
  const double gain_s = token_ms_now_ / 1000 - best->predicted.token_s;
  if (gain_s * 1000 <= least_gain * token_ms_now_) return out;
  const std::string times = "a token is predicted to take " +
                            placement::milliseconds(best->predicted.token_s) + " instead of " +
                            placement::milliseconds(token_ms_now_ / 1000);
  if (std::string why = why_not_worth(gain_s, best->where); !why.empty()) {
    out.notes.push_back("Nothing is promoted: " + times + ", but " + why + ".");
    return out;
  }
  add_moves(best->where, "there is room, and " + times, out);
  add_slack_notes(best->where, out);
  return out;
}

bool promotion::still_gains(const std::vector<planned_move>& moves,
                            const decision_record& record) const {
  const auto may_follow = [](const candidate& c) {
    return c.removed_by == filter::none || c.removed_by == filter::no_room ||
           c.removed_by == filter::rate_limit || c.removed_by == filter::move_quota;
  };
  return moves.empty() || std::ranges::all_of(record.candidates, may_follow) ||
         token_ms_with(moves) < token_ms_now_;
}

double promotion::token_ms_with(const std::vector<planned_move>& moves) const {
  placed where = running_.where;
  const placement::request& r = running_.asked;
  for (const planned_move& m : moves) {
    const auto part = std::ranges::find(r.parts, m.subject, &placement::part_demand::name);
    const auto to = std::ranges::find(r.devices, m.to, &placement::device_supply::name);
    if (part != r.parts.end() && to != r.devices.end())
      where[static_cast<std::size_t>(part - r.parts.begin())] =
          static_cast<std::uint32_t>(to - r.devices.begin());
  }
  return placement::predict(r, where).token_s * 1000;
}

}  // namespace terrane::policies
