#include "policies/placement/sequence.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

// States that the search for the fewest bytes looks at, at most.
constexpr std::size_t most_states = 20'000;
// Parts on their way, at most, for that search.
constexpr std::size_t most_searched = 12;

std::string format_bytes(std::int64_t bytes) {
  return format_quantity(static_cast<double>(bytes), unit::bytes);
}

// What is free on each device, with parts held once for what they share and fees paid once.
class floor_plan {
 public:
  floor_plan(const request& r, const standing& now) : of_(&r), paid_(now.fee_paid) {
    paid_.resize(r.devices.size(), false);
    for (std::uint64_t most : most_bytes(r)) left_.push_back(static_cast<std::int64_t>(most));
    pool_of_.assign(r.devices.size(), none);
    for (std::uint32_t k = 0; k < r.pools.size(); ++k) {
      pool_left_.push_back(static_cast<std::int64_t>(most_bytes(r, r.pools[k])));
      for (std::uint32_t d : r.pools[k].devices) pool_of_[d] = k;
    }
    for (std::uint32_t d = 0; d < r.devices.size(); ++d)
      if (paid_[d]) add(d, -static_cast<std::int64_t>(r.devices[d].fee_bytes));
    for (std::uint32_t p = 0; p < now.where.size(); ++p) put(p, now.where[p]);
  }

  // What it takes of the device, the fee included where it is the first to come.
  std::int64_t needs(std::uint32_t p, std::uint32_t d) const {
    std::int64_t bytes = static_cast<std::int64_t>(own_bytes(*of_, p));
    const std::int32_t kind = of_->parts[p].shared;
    if (kind >= 0 && !has_shared(p, d)) bytes += static_cast<std::int64_t>(shared_bytes(*of_, p));
    if (!paid_[d]) bytes += static_cast<std::int64_t>(of_->devices[d].fee_bytes);
    return bytes;
  }
  // Whether what the part shares is there already.
  bool has_shared(std::uint32_t p, std::uint32_t d) const {
    return holders_.contains({of_->parts[p].shared, d});
  }
  bool fits(std::uint32_t p, std::uint32_t d) const { return needs(p, d) <= left(d); }

  void put(std::uint32_t p, std::uint32_t d) {
    add(d, -needs(p, d));
    paid_[d] = true;  // scratch stays
    if (of_->parts[p].shared >= 0) holders_[{of_->parts[p].shared, d}]++;
  }
  void take(std::uint32_t p, std::uint32_t d) {
    const std::int32_t kind = of_->parts[p].shared;
    if (kind >= 0 && --holders_[{kind, d}] == 0) holders_.erase({kind, d});
    add(d, needs(p, d));
  }
  std::int64_t left(std::uint32_t d) const {
    return pool_of_[d] == none ? left_[d] : std::min(left_[d], pool_left_[pool_of_[d]]);
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  void add(std::uint32_t d, std::int64_t bytes) {
    left_[d] += bytes;
    if (pool_of_[d] != none) pool_left_[pool_of_[d]] += bytes;
  }

  const request* of_;
  std::vector<bool> paid_;
  std::vector<std::int64_t> left_, pool_left_;  // by device, by pool
  std::vector<std::uint32_t> pool_of_;          // by device, or none
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> holders_;
};

// Which devices a part may stand on for a while: those where it may be at all.
bool may_stand(const request& r, std::uint32_t p, std::uint32_t d) {
  if (!r.devices[d].left_out.empty()) return false;
  return std::none_of(r.exclusions.begin(), r.exclusions.end(),
                      [&](const keep_off& k) { return k.device == d && k.part.value_or(p) == p; });
}

// At most: what the part shares may be there already.
std::uint64_t travels(const request& r, std::uint32_t p) {
  return own_bytes(r, p) + shared_bytes(r, p);
}

struct single_move {
  std::uint32_t part, to;
};

// Puts moves that were found one by one into steps: a step takes what finds room before anything of
// the step has left.
class stepping {
 public:
  stepping(const request& r, const standing& now, const placed& target)
      : of_(r), plan_(r, now), where_(now.where), target_(target) {}

  void add(const single_move& m) {
    const std::uint32_t from = where_[m.part];
    if (is_in_step(m.part) || !plan_.fits(m.part, m.to)) close();
    const std::uint64_t bytes =
        own_bytes(of_, m.part) + (plan_.has_shared(m.part, m.to) ? 0 : shared_bytes(of_, m.part));
    step_move s{m.part, from, m.to, bytes, m.to != target_[m.part]};
    plan_.put(m.part, m.to);
    open_.bytes += s.bytes;
    open_.seconds += link_of(of_, from, m.to).seconds(s.bytes);
    if (s.aside) out_.asides++;
    open_.moves.push_back(s);
    where_[m.part] = m.to;
  }

  move_sequence finish() {
    close();
    return std::move(out_);
  }

 private:
  bool is_in_step(std::uint32_t p) const {
    return std::any_of(open_.moves.begin(), open_.moves.end(),
                       [&](const step_move& s) { return s.part == p; });
  }
  void close() {
    if (open_.moves.empty()) return;
    for (const step_move& s : open_.moves) plan_.take(s.part, s.from);
    out_.bytes += open_.bytes;
    out_.seconds += open_.seconds;
    out_.steps.push_back(std::move(open_));
    open_ = {};
  }

  const request& of_;
  floor_plan plan_;
  placed where_;
  const placed& target_;
  move_step open_;
  move_sequence out_;
};

class ordering {
 public:
  ordering(const request& r, const standing& now, const placed& target)
      : of_(r), now_(now), target_(target) {
    for (std::uint32_t p = 0; p < target.size(); ++p)
      if (now.where[p] != target[p]) first_pending_.push_back(p);
  }

  outcome<move_sequence> run() {
    std::vector<single_move> moves;
    bool done = go_straight(moves);
    if (!done && first_pending_.size() <= most_searched) {
      moves.clear();
      done = look_for_fewest(moves);
      if (!done && states_ < most_states) return tl::unexpected<refusal>(blocked());
    }
    if (!done) {
      moves.clear();
      done = go_with_asides(moves);
    }
    if (!done) return tl::unexpected<refusal>(blocked());
    stepping steps(of_, now_, target_);
    for (const single_move& m : moves) steps.add(m);
    return steps.finish();
  }

 private:
  void begin() {
    plan_.emplace(of_, now_);
    where_ = now_.where;
    pending_ = first_pending_;
  }

  void carry_out(std::uint32_t p, std::uint32_t to, std::vector<single_move>& moves) {
    plan_->put(p, to);
    plan_->take(p, where_[p]);
    where_[p] = to;
    if (to == target_[p]) std::erase(pending_, p);
    moves.push_back({p, to});
  }

  // What still wants to come to each device and finds no room there.
  std::vector<std::int64_t> shortages() const {
    std::vector<std::int64_t> out(of_.devices.size(), 0);
    for (std::uint32_t d = 0; d < out.size(); ++d) out[d] = -plan_->left(d);
    for (std::uint32_t p : pending_)
      out[target_[p]] += static_cast<std::int64_t>(own_bytes(of_, p));
    return out;
  }

  // Each part once, those first that leave a device on which others wait for room.
  bool go_straight(std::vector<single_move>& moves) {
    begin();
    while (!pending_.empty()) {
      const std::optional<std::uint32_t> p = next_straight();
      if (!p) return false;
      carry_out(*p, target_[*p], moves);
    }
    return true;
  }

  std::optional<std::uint32_t> next_straight() const {
    const std::vector<std::int64_t> shortage = shortages();
    std::optional<std::uint32_t> best;
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (std::uint32_t p : pending_) {
      if (!plan_->fits(p, target_[p])) continue;
      const std::int64_t relief = std::max<std::int64_t>(0, shortage[where_[p]]);
      if (relief <= most) continue;
      most = relief;
      best = p;
    }
    return best;
  }

  // As above; where all wait, the part goes aside that costs least and lets another move, else
  // that makes most room.
  bool go_with_asides(std::vector<single_move>& moves) {
    begin();
    std::set<std::pair<std::uint32_t, std::uint32_t>> been;  // no part stands twice on a device
    while (!pending_.empty()) {
      if (const auto p = next_straight()) {
        carry_out(*p, target_[*p], moves);
        continue;
      }
      const auto aside = next_aside(been);
      if (!aside) return false;
      been.insert({aside->part, aside->to});
      carry_out(aside->part, aside->to, moves);
    }
    return true;
  }

  std::optional<single_move> next_aside(
      const std::set<std::pair<std::uint32_t, std::uint32_t>>& been) const {
    std::optional<single_move> best;
    std::pair<bool, double> least{true, std::numeric_limits<double>::infinity()};
    for (std::uint32_t p : pending_)
      for (std::uint32_t d = 0; d < of_.devices.size(); ++d) {
        if (d == where_[p] || d == target_[p] || been.contains({p, d})) continue;
        if (!may_stand(of_, p, d) || !plan_->fits(p, d)) continue;
        const bool frees = lets_another_move(p, d);
        const double bytes = static_cast<double>(travels(of_, p));
        const std::pair<bool, double> cost{!frees, frees ? bytes : -bytes};
        if (cost >= least) continue;
        least = cost;
        best = single_move{p, d};
      }
    return best;
  }

  bool lets_another_move(std::uint32_t p, std::uint32_t d) const {
    floor_plan then = *plan_;
    then.put(p, d);
    then.take(p, where_[p]);
    return std::any_of(pending_.begin(), pending_.end(),
                       [&](std::uint32_t q) { return q != p && then.fits(q, target_[q]); });
  }

  // The fewest bytes: over where each part on its way stands, best first, with the bytes that must
  // still travel as what is to come at least.
  bool look_for_fewest(std::vector<single_move>& moves) {
    struct node {
      std::uint64_t bytes;  // so far and at least to come
      std::size_t state;
      bool operator>(const node& o) const {
        return bytes != o.bytes ? bytes > o.bytes : state < o.state;
      }
    };
    struct reached {
      placed where;
      std::uint64_t spent;
      std::size_t before;
      single_move by;
    };
    std::vector<reached> states{{now_.where, 0, 0, {0, 0}}};
    std::map<placed, std::uint64_t> least{{now_.where, 0}};
    std::priority_queue<node, std::vector<node>, std::greater<>> open;
    open.push({to_come(now_.where), 0});
    while (!open.empty() && states.size() < most_states) {
      const std::size_t at = open.top().state;
      open.pop();
      const placed where = states[at].where;
      if (states[at].spent > least[where]) continue;
      if (to_come(where) == 0) {
        for (std::size_t s = at; s != 0; s = states[s].before) moves.push_back(states[s].by);
        std::reverse(moves.begin(), moves.end());
        return true;
      }
      const floor_plan plan = plan_of(where, at, states);
      for (std::uint32_t p : first_pending_)
        for (std::uint32_t d = 0; d < of_.devices.size(); ++d) {
          if (d == where[p] || !plan.fits(p, d)) continue;
          if (d != target_[p] && !may_stand(of_, p, d)) continue;
          placed then = where;
          then[p] = d;
          const std::uint64_t spent = states[at].spent + travels(of_, p);
          const auto [known, fresh] = least.try_emplace(then, spent);
          if (!fresh && known->second <= spent) continue;
          known->second = spent;
          open.push({spent + to_come(then), states.size()});
          states.push_back({std::move(then), spent, at, {p, d}});
        }
    }
    states_ = states.size();
    return false;
  }

  // Scratch stays where a part has been, so it is not the places alone that count.
  template <class States>
  floor_plan plan_of(const placed& where, std::size_t at, const States& states) const {
    standing s{where, now_.fee_paid};
    s.fee_paid.resize(of_.devices.size(), false);
    for (std::uint32_t d : now_.where) s.fee_paid[d] = true;
    for (; at != 0; at = states[at].before) s.fee_paid[states[at].by.to] = true;
    return {of_, s};
  }

  std::uint64_t to_come(const placed& where) const {
    std::uint64_t sum = 0;
    for (std::uint32_t p : first_pending_)
      if (where[p] != target_[p]) sum += travels(of_, p);
    return sum;
  }

  // Who waits for whom, from what is left after all that can move has.
  refusal blocked() {
    std::vector<single_move> done;
    go_straight(done);
    std::string text = "the parts wait for each other: ";
    std::set<std::uint32_t> named;
    std::uint32_t p = pending_.front();
    while (named.insert(p).second) {
      const std::uint32_t d = target_[p];
      text += (named.size() > 1 ? "; " : "") + of_.parts[p].name + " on " +
              of_.devices[where_[p]].name + " needs " + format_bytes(plan_->needs(p, d)) + " on " +
              of_.devices[d].name + ", which has " +
              format_bytes(std::max<std::int64_t>(0, plan_->left(d)));
      const auto next = std::find_if(pending_.begin(), pending_.end(),
                                     [&](std::uint32_t q) { return where_[q] == d; });
      if (next == pending_.end()) break;
      p = *next;
    }
    return {obstacle::moves,
            text +
                "; and no device has room to set one of them aside: free some memory, or move "
                "in two stages"};
  }

  const request& of_;
  const standing& now_;
  const placed& target_;
  std::vector<std::uint32_t> first_pending_, pending_;
  std::optional<floor_plan> plan_;
  placed where_;
  std::size_t states_ = 0;
};

tl::unexpected<refusal> unsafe(std::string message) {
  return tl::unexpected<refusal>(refusal{obstacle::moves, std::move(message)});
}

outcome<void> check_places(const request& r, const placed& where) {
  if (where.size() != r.parts.size()) return unsafe("not every part has a place");
  for (std::uint32_t d : where)
    if (d >= r.devices.size()) return unsafe("a part is on a device that is not there");
  return {};
}

}  // namespace

outcome<move_sequence> find_sequence(const request& r, const standing& now, const placed& target) {
  for (const placed* where : {&now.where, &target})
    if (auto ok = check_places(r, *where); !ok) return tl::unexpected<refusal>(ok.error());
  return ordering(r, now, target).run();
}

outcome<void> check(const request& r, const standing& now, const move_sequence& s) {
  if (auto ok = check_places(r, now.where); !ok) return ok;
  floor_plan plan(r, now);
  placed where = now.where;
  for (const move_step& step : s.steps) {
    for (const step_move& m : step.moves) {
      const std::string& part = r.parts[m.part].name;
      if (where[m.part] != m.from)
        return unsafe(part + " is on " + r.devices[where[m.part]].name + ", not on " +
                      r.devices[m.from].name);
      if (!plan.fits(m.part, m.to))
        return unsafe(part + " needs " + format_bytes(plan.needs(m.part, m.to)) + " on " +
                      r.devices[m.to].name + ", which has " + format_bytes(plan.left(m.to)));
      plan.put(m.part, m.to);
      where[m.part] = m.to;
    }
    for (const step_move& m : step.moves) plan.take(m.part, m.from);
  }
  return {};
}

placed after(const placed& now, const move_sequence& s) {
  placed where = now;
  for (const move_step& step : s.steps)
    for (const step_move& m : step.moves) where[m.part] = m.to;
  return where;
}

}  // namespace terrane::policies::placement
