// What no trace may ever do, whatever the machine, its sensors and its policies: move something
// that has just come, take more than there is, spend more than a limit, plan sooner than the
// cool-down, touch what is pinned or lost, or do any of it without an explanation. Machines,
// policies and an hour of sensors are drawn at random; TERRANE_TEST_TRACES says how many (24 by
// default).
#include <cstdlib>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using tests::gib;
using tests::machine;
using tests::mib;

const std::vector<std::string> pressure = {
    "  - name: full\n    for_each: gpu\n    min_stay: 20s\n    cooldown: 15s\n"
    "    limit: {bytes: 1GiB, per: 10s}\n"
    "    enter: {metric: vram.used_ratio, above: 90%, held: 3s}\n"
    "    leave: {metric: vram.used_ratio, below: 80%, held: 10s}\n"
    "    do: {move: layers, to: ['vulkan:b', cpu]}\n    undo: restore\n",
    "  - name: hot\n    for_each: gpu\n    priority: 90\n    min_stay: 15s\n"
    "    enter: {metric: temp_c, above: 85C, held: 2s}\n    leave: {metric: temp_c, below: 70C}\n"
    "    emergency: {metric: temp_c, above: 95C}\n"
    "    do: {move: layers, until: 1GiB, order: best, to: most_free}\n    undo: restore\n",
    "  - name: cheaper\n    for_each: gpu\n    priority: 40\n    cooldown: 30s\n"
    "    enter: {metric: vram.free, below: 1GiB, held: 2s}\n"
    "    leave: {metric: vram.free, above: 2GiB, held: 20s}\n"
    "    do: {spill: cheaper, until: leave, to: cpu}\n    undo: restore\n",
    "  - name: fill\n    for_each: gpu\n    priority: 10\n    min_stay: 60s\n    cooldown: 20s\n"
    "    enter: {metric: vram.used_ratio, below: 50%, held: 5s}\n"
    "    leave: {metric: vram.used_ratio, above: 70%}\n"
    "    do: {move: layers, from: cpu, to: itself, until: leave}\n",
    "  - name: idle\n    for_each: session\n    cooldown: 10s\n    min_stay: 0s\n"
    "    enter: {metric: idle_s, above: 30s}\n    leave: {metric: idle_s, below: 5s}\n"
    "    do: {spill: kv, keep_tokens: 100, to: cpu}\n    undo: restore\n"};

const std::string script =
    "policy 'spread' {\n for_each = 'gpu', min_stay = '30s', cooldown = '10s',\n"
    " enter = above('vram.used_ratio', 0.7):held '4s', leave = below('vram.used_ratio', 0.6),\n"
    " plan = function (gpu, out)\n  local refuge = devices():except(gpu):most_free()\n"
    "  if not refuge then return out:decline 'nowhere' end\n"
    "  for part in gpu:parts():movable():largest_first():first(3) do\n"
    "   out:move(part, refuge.name, 'spread out')\n  end\n end, undo = 'restore' }\n";

class course {
 public:
  explicit course(unsigned seed) : random_(seed) {
    std::string yaml = "apiVersion: terrane/v1\npolicies:\n";
    bool any = false;
    for (const std::string& p : pressure)
      if (chance(0.6)) yaml += p, any = true;
    std::vector<policy_source> sources;
    if (any) sources.push_back({"t.yaml", yaml});
    if (chance(0.4) || !any) sources.push_back({"t.lua", script});
    auto set = policy_set::from_sources(sources);
    if (!set) throw std::invalid_argument(to_string(set.error().front()));
    set_ = *set;
    build();
  }

  void run(std::int64_t seconds) {
    for (std::int64_t t = 0; t < seconds * 1000; t += 1000) {
      disturb();
      const snapshot& now = machine_.at(t);
      for (const completed_move& c : now.completed)
        if (c.outcome == move_outcome::done && c.kind == subject_kind::part)
          arrived_[c.subject] = c.completed_ms;
      const decision d = evaluate(*set_, now, state_);
      check(now, d);
      if (testing::Test::HasFatalFailure()) return;
      machine_.carry_out(d.planned, t);
      for (const planned_move& m : d.planned.moves) ++moves[m.policy];
    }
  }

  std::map<std::string, std::size_t> moves;  // by policy

 private:
  double upto(double most) { return static_cast<double>(random_() % 10'000) / 10'000 * most; }
  bool chance(double p) { return upto(1) < p; }

  void build() {
    machine_.add_device("cpu", 16 * gib, 2 * gib);
    for (const char* name : {"vulkan:a", "vulkan:b"}) {
      auto& d = machine_.add_device(name, 3 * gib + upto(6 * gib));
      d.state.temp_c = {50, 0};
      if (chance(0.4)) d.state.vram_reserved = {upto(gib), 0, 1'000'000'000};
    }
    if (chance(0.7))
      for (const char* name : {"cpu", "vulkan:a", "vulkan:b"})
        machine_.device(name).weights_per_s = 10e9 + upto(400e9);
    machine_.promotes = chance(0.6);
    if (chance(0.5)) machine_.tokens_per_s = 1 + upto(50);
    if (chance(0.5)) machine_.link_bytes_per_s = 1e9 + upto(10e9);
    machine_.move_ms = 200 + static_cast<std::int64_t>(upto(4000));
    machine_.add_layers(4 + static_cast<int>(random_() % 12), 20 * mib + upto(80 * mib),
                        50 * mib + upto(250 * mib), chance(0.5) ? "cpu" : "vulkan:a",
                        chance(0.5) ? upto(20 * mib) : 0);
    for (int i = 0; i < 3; ++i)
      machine_.add_session(std::to_string(i), 4000, upto(300 * mib), "vulkan:a");
    if (chance(0.3)) machine_.part("layer.1.ffn").pinned = true;
  }

  void disturb() {
    for (const char* name : {"vulkan:a", "vulkan:b"}) {
      auto& d = machine_.device(name);
      if (chance(0.1)) d.others = upto(0.7 * d.total);
      if (chance(0.15)) d.state.temp_c.value = 40 + upto(60);
      if (chance(0.005)) d.lost = !d.lost;
      if (chance(0.01)) machine_.stop_sensor(name, chance(0.5) ? "vram" : "temp");
      if (chance(0.05)) machine_.resume_sensor(name, "vram"), machine_.resume_sensor(name, "temp");
      if (d.weights_per_s > 0 && chance(0.01)) d.weights_per_s = 10e9 + upto(400e9);
    }
    if (chance(0.01)) machine_.broken_targets = {"vulkan:b"};
    if (chance(0.05)) machine_.broken_targets.clear();
    for (int i = 0; i < 3; ++i)
      if (chance(0.05)) machine_.session(std::to_string(i)).idle_s = upto(90);
  }

  const rule& rule_of(const std::string& name) const {
    for (const rule& r : set_->asked())
      if (r.name == name) return r;
    throw std::invalid_argument(name);
  }

  void check(const snapshot& now, const decision& d) {
    std::map<std::string, double> arriving;
    std::map<subject_ref, int> times;
    std::map<std::string, std::uint64_t> by_policy;
    for (const planned_move& m : d.planned.moves) {
      arriving[m.to] += static_cast<double>(m.bytes);
      by_policy[m.policy] += m.bytes;
      ASSERT_EQ((++times[{m.kind, m.subject}]), 1) << m.subject << " is planned twice";
      check_one(now, m);
      check_explained(d, m);
    }
    for (const auto& [to, bytes] : arriving) {
      if (to.empty()) continue;  // beside its parts: the engine reserves there
      const device_state& target = *find_device(now, to);
      ASSERT_TRUE(free_bytes(target).present()) << to << " tells nothing of its memory";
      ASSERT_LE(bytes, free_bytes(target).value - target.vram_reserved.value + 1)
          << to << " at " << now.time_ms;
    }
    check_limits(now, by_policy);
    check_cooldowns(now, d);
  }

  void check_one(const snapshot& now, const planned_move& m) {
    if (m.kind != subject_kind::part) return;
    const part_state& p = *find_part(now, m.subject);
    ASSERT_FALSE(p.pinned || !p.movable) << m.subject;
    ASSERT_NE(m.to, p.device) << m.subject;
    ASSERT_FALSE(machine_.device(m.to).lost) << m.to;
    if (const auto at = arrived_.find(m.subject); at != arrived_.end()) {
      ASSERT_GE(now.time_ms - at->second, rule_of(m.policy).min_stay_ms)
          << m.subject << " by " << m.policy << " at " << now.time_ms;
    }
  }

  void check_explained(const decision& d, const planned_move& m) {
    const auto record = std::ranges::find(d.records, m.decision, &decision_record::id);
    ASSERT_NE(record, d.records.end()) << m.subject;
    ASSERT_FALSE(m.reason.empty()) << m.subject;
    const auto is_it = [&](const candidate& c) {
      return c.kind == m.kind && c.subject == m.subject && c.removed_by == filter::none;
    };
    ASSERT_TRUE(std::ranges::any_of(record->candidates, is_it)) << m.subject;
    const bool homecoming = record->event == decision_event::restored;
    ASSERT_TRUE(homecoming || !record->conditions.empty()) << explain_text(*record);
    const bool built_in = m.policy == promotion_policy;
    ASSERT_TRUE(built_in || record->where.line > 0) << explain_text(*record);
    ASSERT_NE(explain_text(*record).find(m.reason), std::string::npos) << explain_text(*record);
  }

  // One move that is larger than the whole limit goes alone.
  void check_limits(const snapshot& now, const std::map<std::string, std::uint64_t>& spent) {
    for (const auto& [policy, bytes] : spent) {
      const rate_limit& limit = rule_of(policy).limit;
      if (limit.bytes == 0) continue;
      auto& past = spent_[policy];
      std::erase_if(past, [&](const auto& s) { return now.time_ms - s.first >= limit.per_ms; });
      std::uint64_t sum = bytes;
      for (const auto& [at, before] : past) sum += before;
      past.emplace_back(now.time_ms, bytes);
      ASSERT_TRUE(sum <= limit.bytes || past.size() == 1) << policy << " spends " << sum;
    }
  }

  void check_cooldowns(const snapshot& now, const decision& d) {
    for (const decision_record& r : d.records) {
      const bool plans = r.event == decision_event::entered || r.event == decision_event::again;
      if (r.moves.empty() || !plans) continue;
      const auto [at, first] = planned_.try_emplace({r.policy, r.object}, now.time_ms);
      if (!first) {
        ASSERT_GE(now.time_ms - at->second, rule_of(r.policy).cooldown_ms) << r.policy;
      }
      at->second = now.time_ms;
    }
  }

  std::mt19937 random_;
  policy_set_ptr set_;
  machine machine_;
  pipeline_state state_;
  std::map<std::string, std::int64_t> arrived_;
  std::map<std::string, std::vector<std::pair<std::int64_t, std::uint64_t>>> spent_;
  std::map<std::pair<std::string, std::string>, std::int64_t> planned_;
};

TEST(thrash_property, no_random_hour_breaks_a_rule) {
  const char* wanted = std::getenv("TERRANE_TEST_TRACES");
  const unsigned traces = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 24;
  std::map<std::string, std::size_t> moves;
  for (unsigned seed = 1; seed <= traces; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    course c(seed);
    c.run(3600);
    if (HasFatalFailure()) return;
    for (const auto& [policy, count] : c.moves) moves[policy] += count;
  }
  // Rules that nothing puts to the test are not shown: each policy has to have moved a good deal.
  for (const char* policy : {"full", "hot", "cheaper", "fill", "idle", "spread", "promotion"}) {
    EXPECT_GT(moves[policy], 2 * traces) << policy;
    RecordProperty(policy, static_cast<int>(moves[policy]));
  }
}

}  // namespace
}  // namespace terrane::policies
