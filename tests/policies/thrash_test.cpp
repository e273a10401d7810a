// What keeps policies from moving things for nothing: the emergency level, moves that would not
// help or are not worth it, quotas, flapping; and what gives a device back.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"
#include "tests/policies/set_of.hpp"

namespace terrane::policies {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using tests::gib;
using tests::load;
using tests::machine;
using tests::mib;
using tests::set_of;

const std::string hot =
    "  - name: hot\n"
    "    for_each: gpu\n"
    "    min_stay: 0s\n"
    "    enter: {metric: temp_c, above: 85C, held: 10s}\n"
    "    leave: {metric: temp_c, below: 70C, held: 0s}\n"
    "    do: {move: layers, to: cpu}\n"
    "    undo: restore\n";

machine one_gpu(double temp_c, int layers = 1) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib).state.temp_c = {temp_c, 0};
  m.add_layers(layers, 100 * mib, 200 * mib, "vulkan:a");
  return m;
}

filter first_refusal(const decision& d) {
  for (const decision_record& r : d.records) {
    for (const candidate& c : r.candidates) {
      if (c.removed_by != filter::none) return c.removed_by;
    }
  }
  return filter::none;
}

TEST(emergency, waits_for_neither_hold_nor_cooldown) {
  const policy_set_ptr set =
      set_of(hot + "    cooldown: 10m\n    emergency: {metric: temp_c, above: 95C}\n");
  machine m = one_gpu(90);
  pipeline_state state;
  EXPECT_TRUE(evaluate(*set, m.at(0), state).planned.moves.empty());
  m.device("vulkan:a").state.temp_c.value = 96;
  const decision d = evaluate(*set, m.at(1000), state);
  EXPECT_EQ(d.planned.moves.size(), 2u);
  ASSERT_EQ(d.records.size(), 1u);
  EXPECT_EQ(d.records[0].event, decision_event::emergency);
  EXPECT_THAT(explain_text(d.records[0]), HasSubstr("above 95 C"));
}

TEST(emergency, passes_no_other_filter) {
  const policy_set_ptr set = set_of(hot + "    emergency: {metric: temp_c, above: 95C}\n");
  machine m = one_gpu(96);
  m.part("layer.0.attn").pinned = true;
  m.part("layer.0.ffn").moved_ms = 0;
  m.device("cpu").others = 32 * gib;
  pipeline_state state;
  EXPECT_TRUE(evaluate(*set, m.at(1000), state).planned.moves.empty());
}

TEST(emergency, must_lie_past_enter) {
  EXPECT_THAT(
      to_string(load(hot + "    emergency: {metric: temp_c, above: 80C}\n").error().front()),
      HasSubstr("must lie past 'enter'"));
  EXPECT_FALSE(load(hot + "    emergency: {metric: temp_c, below: 95C}\n").has_value());
}

const std::string full =
    "  - name: full\n"
    "    for_each: gpu\n"
    "    min_stay: 0s\n"
    "    enter: {metric: vram.used_ratio, above: 90%}\n"
    "    leave: {metric: vram.used_ratio, below: 80%, held: 0s}\n"
    "    do: {move: layers, until: all, to: vulkan:b}\n";

TEST(would_it_help, another_driver_of_the_same_card_has_the_same_memory) {
  machine m = one_gpu(50);
  m.device("vulkan:a").others = 7.5 * gib;
  m.device("vulkan:a").state.card = "gpu-1";
  m.add_device("vulkan:b", 8 * gib).state.card = "gpu-1";
  pipeline_state state;
  const decision d = evaluate(*set_of(full), m.at(0), state);
  EXPECT_TRUE(d.planned.moves.empty());
  EXPECT_EQ(first_refusal(d), filter::no_help);
  m.device("vulkan:b").state.card = "gpu-2";
  pipeline_state other;
  EXPECT_EQ(evaluate(*set_of(full), m.at(0), other).planned.moves.size(), 2u);
}

TEST(would_it_help, the_kv_of_an_idle_session_makes_no_heat) {
  machine m = one_gpu(90);
  m.add_session("7", 1000, 100 * mib, "vulkan:a");
  const policy_set_ptr set = set_of(
      "  - name: cool\n    for_each: gpu\n    enter: {metric: temp_c, above: 85C}\n"
      "    leave: {metric: temp_c, below: 70C}\n    do: {spill: kv, to: cpu}\n");
  m.session("7").idle_s = 60;
  pipeline_state state;
  const decision d = evaluate(*set, m.at(0), state);
  EXPECT_EQ(first_refusal(d), filter::no_help);
  m.session("7").idle_s = 1;
  pipeline_state other;
  EXPECT_EQ(evaluate(*set, m.at(0), other).planned.moves.size(), 1u);
}

// Fills the GPU from the CPU when it has room: a policy that moves for speed.
const std::string fill =
    "  - name: fill\n    for_each: cpu\n    min_stay: 0s\n"
    "    enter: {metric: vram.free, above: 1GiB}\n"
    "    leave: {metric: vram.free, below: 512MiB}\n"
    "    do: {move: layers, until: all, to: vulkan:a}\n";

TEST(worth_it, a_move_that_costs_more_than_it_gains_is_left) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib);
  m.add_layers(1, 100 * mib, 200 * mib, "cpu");
  for (const char* part : {"layer.0.attn", "layer.0.ffn"}) {
    m.part(part).measured = {{"cpu", 2.0}, {"vulkan:a", 1.9}};
  }
  const policy_set_ptr set = set_of(fill);
  const auto decide = [&](double tokens_per_s, std::int64_t stay_ms) {
    snapshot now = m.at(0);
    now.tokens_per_s = tokens_per_s;
    now.links = {{"cpu", "vulkan:a", 1e9, 5}};
    pipeline_state state;
    evaluate(*policy_set::empty(), now, state);
    policy_memory& memory = state.policies.emplace_back();
    memory.policy = "fill";
    memory.latches.push_back({"cpu", {}});
    memory.latches.back().latch.mean_engaged_ms = stay_ms;
    return evaluate(*set, now, state);
  };
  const decision left =
      decide(10, 60'000);  // 60 ms are gained in a minute, and it takes 110 to 215
  EXPECT_TRUE(left.planned.moves.empty());
  EXPECT_EQ(first_refusal(left), filter::not_worth);
  EXPECT_THAT(explain_text(left.records.at(0)), HasSubstr("in the 60 s that it would stay"));
  EXPECT_EQ(decide(10, 600'000).planned.moves.size(), 2u);
  // What was not measured decides nothing.
  EXPECT_EQ(decide(0, 60'000).planned.moves.size(), 2u);
  EXPECT_EQ(decide(10, 0).planned.moves.size(), 2u);
}

TEST(score, best_first_takes_most_relief_for_the_cost) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib, 7 * gib);
  m.add_session("small", 10, 100 * mib, "vulkan:a");
  m.add_session("large", 10, 600 * mib, "vulkan:a");
  const policy_set_ptr set = set_of(
      "  - name: kv\n    for_each: gpu\n    enter: {metric: vram.used_ratio, above: 90%}\n"
      "    leave: {metric: vram.used_ratio, below: 89%}\n"
      "    do: {spill: kv, order: best, to: cpu}\n");
  snapshot now = m.at(0);
  now.links = {{"vulkan:a", "cpu", 1e9, 50}};  // the pause weighs more on a small one
  pipeline_state state;
  const decision d = evaluate(*set, now, state);
  ASSERT_EQ(d.planned.moves.size(), 1u);
  EXPECT_EQ(d.planned.moves[0].subject, "large");
  EXPECT_NEAR(d.planned.moves[0].predicted_ms, 50 + 600 * mib / 1e6, 0.001);
  const candidate_score& score = d.records[0].candidates[0].score;
  EXPECT_EQ(score.relief_bytes, static_cast<std::uint64_t>(600 * mib));
  EXPECT_GT(score.value, d.records[0].candidates[1].score.value);
}

TEST(quota, bounds_a_link_and_what_is_in_flight) {
  machine m = one_gpu(90, 4);
  const policy_set_ptr set = set_of(
      "  - name: hot\n    for_each: gpu\n    min_stay: 0s\n    enter: {metric: temp_c, above: "
      "85C}\n"
      "    leave: {metric: temp_c, below: 70C}\n    do: {move: layers, to: cpu}\n");
  snapshot now = m.at(0);
  now.limits = {static_cast<std::uint64_t>(650 * mib), 10'000, 0};
  pipeline_state state;
  EXPECT_EQ(evaluate(*set, now, state).planned.moves.size(), 4u);  // 200 + 100 + 200 + 100 MiB
  now.limits = {0, 0, static_cast<std::uint64_t>(350 * mib)};
  pipeline_state other;
  const decision d = evaluate(*set, now, other);
  EXPECT_EQ(d.planned.moves.size(), 2u);
  EXPECT_EQ(first_refusal(d), filter::move_quota);
  // A move that is larger than all goes alone.
  now.limits = {1, 10'000, 1};
  pipeline_state third;
  EXPECT_EQ(evaluate(*set, now, third).planned.moves.size(), 1u);
}

const std::string nervous =
    "  - name: hot\n    for_each: gpu\n    min_stay: 0s\n"
    "    flapping: {times: 2, per: 5m}\n    cooldown: 10s\n"
    "    enter: {metric: temp_c, above: 85C, held: 0s}\n"
    "    leave: {metric: temp_c, below: 70C, held: 0s}\n"
    "    do: {move: layers, to: cpu}\n    undo: restore\n";

TEST(flapping, pins_what_came_home_too_often_and_doubles_the_cooldown) {
  const policy_set_ptr set = set_of(nervous);
  machine m = one_gpu(90);
  pipeline_state state;
  int returns = 0, flaps = 0;
  std::int64_t pinned_at = 0;
  for (std::int64_t t = 0; t < 240'000; t += 1000) {
    m.device("vulkan:a").state.temp_c.value = (t / 15'000) % 2 == 0 ? 90 : 50;
    const decision d = evaluate(*set, m.at(t), state);
    m.carry_out(d.planned, t);
    for (const planned_move& move : d.planned.moves) {
      if (move.subject == "layer.0.ffn" && move.to == "vulkan:a") ++returns;
    }
    for (const decision_record& r : d.records) {
      if (r.event != decision_event::flapped) continue;
      ++flaps;
      pinned_at = t;
      EXPECT_EQ(r.candidates.size(), 2u);
      EXPECT_THAT(explain_text(r), HasSubstr("the cool-down is 20 s"));
    }
  }
  EXPECT_EQ(returns, 2);
  EXPECT_EQ(flaps, 1);
  EXPECT_EQ(m.part("layer.0.ffn").device, "cpu");
  journal none;
  EXPECT_THAT(why_text("layer.0.ffn", *set, m.at(240'000), state, none), HasSubstr("flapping"));
  // When it has been quiet for as long, it goes home.
  m.device("vulkan:a").state.temp_c.value = 50;
  for (std::int64_t t = 241'000; t < pinned_at + 310'000; t += 1000) {
    m.carry_out(evaluate(*set, m.at(t), state).planned, t);
  }
  EXPECT_EQ(m.part("layer.0.ffn").device, "vulkan:a");
}

TEST(yield, gives_a_device_back_keeps_away_from_it_and_returns) {
  machine m = one_gpu(50, 2);
  m.add_session("7", 1000, 100 * mib, "vulkan:a");
  const policy_set_ptr set = set_of(
      "  - name: fill\n    for_each: cpu\n    min_stay: 0s\n"
      "    enter: {metric: vram.free, above: 1GiB}\n    leave: {metric: vram.free, below: 512MiB}\n"
      "    do: {move: layers, until: all, to: vulkan:a}\n");
  pipeline_state state;
  const auto tick = [&](std::int64_t t, bool asked) {
    snapshot now = m.at(t);
    if (asked) now.yields.push_back({"vulkan:a", 0, reading::never, "user 5"});
    const decision d = evaluate(*set, now, state);
    m.carry_out(d.planned, t);
    return d;
  };
  const decision first = tick(0, true);
  ASSERT_EQ(first.planned.moves.size(), 4u);
  EXPECT_EQ(first.planned.moves[0].reason, "user 5 asked for the memory of vulkan:a");
  for (std::int64_t t = 1000; t < 60'000; t += 1000) tick(t, true);
  const snapshot& gone = m.at(60'000);
  for (const part_state& p : gone.parts) EXPECT_EQ(p.device, "cpu");
  EXPECT_EQ(gone.sessions[0].kv[0].device, "cpu");
  for (std::int64_t t = 61'000; t < 70'000; t += 1000) tick(t, false);
  const snapshot& back = m.at(70'000);
  for (const part_state& p : back.parts) EXPECT_EQ(p.device, "vulkan:a");
  EXPECT_EQ(back.sessions[0].kv[0].device, "vulkan:a");
}

// The same card through another driver has the same memory: nothing would become free.
TEST(yield, does_not_move_to_the_same_card) {
  machine m = one_gpu(50, 2);
  m.add_device("cuda:a", 80 * gib);
  for (const char* name : {"vulkan:a", "cuda:a"}) m.device(name).state.card = "a";
  pipeline_state state;
  snapshot now = m.at(0);
  now.yields.push_back({"vulkan:a", 0, reading::never, "user 5"});
  const decision d = evaluate(*policy_set::empty(), now, state);
  ASSERT_FALSE(d.planned.moves.empty());
  for (const planned_move& move : d.planned.moves) EXPECT_EQ(move.to, "cpu");
}

TEST(yield, is_a_verb_of_policies_too) {
  machine m = one_gpu(90, 2);
  const policy_set_ptr set = set_of(
      "  - name: game\n    for_each: gpu\n    enter: {metric: temp_c, above: 85C, held: 0s}\n"
      "    leave: {metric: temp_c, below: 70C, held: 0s}\n    do: {yield: device}\n    undo: "
      "restore\n");
  pipeline_state state;
  EXPECT_EQ(evaluate(*set, m.at(0), state).planned.moves.size(), 4u);
  EXPECT_FALSE(load("  - name: yield\n    for_each: gpu\n    enter: {metric: temp_c, above: 85C}\n"
                    "    leave: {metric: temp_c, below: 70C}\n    do: {yield: device}\n")
                   .has_value());
  EXPECT_FALSE(load("  - name: x\n    for_each: session\n    enter: {metric: idle_s, above: 9s}\n"
                    "    leave: {metric: idle_s, below: 1s}\n    do: {yield: device}\n")
                   .has_value());
}

TEST(disabled, a_policy_is_not_asked_and_holds_nothing) {
  machine m = one_gpu(90);
  const policy_set_ptr set = set_of(nervous);
  pipeline_state state;
  m.carry_out(evaluate(*set, m.at(0), state).planned, 0);
  evaluate(*set, m.at(1000), state);
  EXPECT_EQ(state.held.size(), 2u);
  m.device("vulkan:a").state.temp_c.value = 50;
  for (std::int64_t t = 2000; t < 20'000; t += 1000) {
    snapshot now = m.at(t);
    now.disabled = {"hot"};
    EXPECT_TRUE(evaluate(*set, now, state).planned.moves.empty());
  }
  EXPECT_TRUE(state.held.empty());
  m.device("vulkan:a").state.temp_c.value = 90;
  m.part("layer.0.ffn").device = "vulkan:a";
  EXPECT_EQ(evaluate(*set, m.at(40'000), state).planned.moves.size(), 1u);
}

// Random sensors for an hour, several policies that disagree: what no trace may ever do.
TEST(property, no_trace_moves_too_soon_too_much_or_unexplained) {
  const policy_set_ptr set = set_of(
      "  - name: full\n    for_each: gpu\n    min_stay: 20s\n    cooldown: 15s\n"
      "    enter: {metric: vram.used_ratio, above: 90%, held: 3s}\n"
      "    leave: {metric: vram.used_ratio, below: 80%, held: 10s}\n"
      "    do: {move: layers, to: [vulkan:b, cpu]}\n    undo: restore\n"
      "  - name: hot\n    for_each: gpu\n    priority: 90\n    min_stay: 20s\n"
      "    enter: {metric: temp_c, above: 85C, held: 2s}\n    leave: {metric: temp_c, below: 70C}\n"
      "    emergency: {metric: temp_c, above: 95C}\n"
      "    do: {move: layers, until: 1GiB, order: best, to: most_free}\n    undo: restore\n");
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](double most) {
      return static_cast<double>(random() % 1000) / 1000 * most;
    };
    machine m;
    m.add_device("cpu", 16 * gib, 2 * gib);
    m.add_device("vulkan:a", 8 * gib).state.temp_c = {50, 0};
    m.add_device("vulkan:b", 4 * gib).state.temp_c = {50, 0};
    m.add_layers(12, 64 * mib, 192 * mib, "vulkan:a");
    pipeline_state state;
    std::map<std::string, int> moves_of;
    std::map<std::string, std::int64_t> arrived;
    for (std::int64_t t = 0; t < 3'600'000; t += 1000) {
      if (random() % 7 == 0) m.device("vulkan:a").others = upto(5 * gib);
      if (random() % 7 == 0) m.device("vulkan:b").others = upto(3.5 * gib);
      for (const char* d : {"vulkan:a", "vulkan:b"}) {
        if (random() % 5 == 0) m.device(d).state.temp_c.value = 40 + upto(60);
      }
      const snapshot& now = m.at(t);
      for (const completed_move& c : now.completed) arrived[c.subject] = c.completed_ms;
      const decision d = evaluate(*set, now, state);
      std::map<std::string, double> planned;
      for (const planned_move& move : d.planned.moves) {
        ++moves_of[move.subject];
        planned[move.to] += static_cast<double>(move.bytes);
        if (arrived.contains(move.subject)) {
          ASSERT_GE(t - arrived[move.subject], 20'000) << move.subject << " at " << t;
        }
        EXPECT_FALSE(move.reason.empty());
        EXPECT_THAT(d.records, Contains(Field(&decision_record::id, move.decision)));
      }
      for (const auto& [to, bytes] : planned) {
        ASSERT_LE(bytes, free_bytes(*find_device(now, to)).value) << to << " at " << t;
      }
      m.carry_out(d.planned, t);
    }
    // Away and home again at most three times in ten minutes, so seven moves at most in each.
    for (const auto& [part, count] : moves_of) EXPECT_LE(count, 6 * 7 + 1) << part;
  }
}

}  // namespace
}  // namespace terrane::policies
