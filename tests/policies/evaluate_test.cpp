// The pipeline as a whole: the same in, the same out; what it remembers; what it does when reports
// are late, repeated or missing.
#include "policies/pipeline/evaluate.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/explain/by_hand.hpp"
#include "policies/explain/explain.hpp"
#include "policies/yaml/document.hpp"
#include "tests/policies/machine.hpp"
#include "tests/policies/set_of.hpp"

namespace terrane::policies {
namespace {

using testing::HasSubstr;
using tests::gib;
using tests::machine;
using tests::mib;
using tests::set_of;

const char* const hot =
    "  - name: hot\n"
    "    for_each: gpu\n"
    "    min_stay: 0s\n"
    "    enter: {metric: temp_c, above: 85C}\n"
    "    leave: {metric: temp_c, below: 70C, held: 0s}\n"
    "    do: {move: layers, to: cpu}\n"
    "    undo: restore\n";

machine one_gpu(double temp_c) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib).state.temp_c = {temp_c, 0};
  m.add_layers(1, 100 * mib, 200 * mib, "vulkan:a");
  return m;
}

TEST(evaluate, does_nothing_without_policies) {
  machine m = one_gpu(95);
  pipeline_state state;
  const decision d = evaluate(*policy_set::empty(), m.at(0), state);
  EXPECT_TRUE(d.planned.moves.empty());
  EXPECT_TRUE(d.records.empty());
  EXPECT_EQ(plan_text(d), "No policy acts on this snapshot.\n");
}

TEST(evaluate, is_a_function_of_what_it_is_given) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  const snapshot& now = m.at(0);
  pipeline_state a;
  pipeline_state b;
  EXPECT_EQ(plan_json(evaluate(*policies, now, a)), plan_json(evaluate(*policies, now, b)));
  // Asked on a copy, the state stays as it was.
  pipeline_state fresh;
  pipeline_state copy = fresh;
  evaluate(*policies, now, copy);
  EXPECT_EQ(fresh.next_move, 1u);
  EXPECT_EQ(evaluate(*policies, now, fresh).planned.moves.size(), 2u);
}

TEST(evaluate, gives_each_move_its_policy_reason_and_line) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  const decision d = evaluate(*policies, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 2u);
  const planned_move& first = d.planned.moves.front();
  EXPECT_EQ(first.id, 1u);
  EXPECT_EQ(first.decision, d.records.at(0).id);
  EXPECT_EQ(first.policy, "hot");
  EXPECT_EQ(first.reason, "temp_c is 95 C (above 85 C)");
  EXPECT_EQ(to_string(first.where), "t.yaml:3:5");
  EXPECT_EQ(first.bytes, static_cast<std::uint64_t>(200 * mib));
}

TEST(evaluate, takes_a_completion_that_is_reported_twice_once) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  const decision d = evaluate(*policies, m.at(0), state);
  m.carry_out(d.planned, 0);
  snapshot after = m.at(1000);
  ASSERT_EQ(after.completed.size(), 2u);
  evaluate(*policies, after, state);
  EXPECT_TRUE(state.issued.empty());
  after.time_ms = 2000;
  evaluate(*policies, after, state);
  EXPECT_EQ(state.policies.at(1).latches.at(0).latch.unfinished_moves, 0u);
  EXPECT_EQ(state.held.size(), 2u);
}

TEST(evaluate, gives_up_on_a_move_that_no_one_mentions) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  evaluate(*policies, m.at(0), state);  // and the daemon loses the plan
  evaluate(*policies, m.at(60'000), state);
  EXPECT_EQ(state.issued.size(), 2u);
  evaluate(*policies, m.at(61'000), state);
  EXPECT_TRUE(state.issued.empty());
  EXPECT_TRUE(state.held.empty());
  EXPECT_EQ(state.failures.size(), 2u);
}

TEST(evaluate, a_new_set_goes_on_with_policies_of_the_same_name) {
  machine m = one_gpu(95);
  pipeline_state state;
  const decision d = evaluate(*set_of(hot), m.at(0), state);
  m.carry_out(d.planned, 0);
  std::string changed = hot;
  changed.replace(changed.find("85C"), 3, "88C");
  evaluate(*set_of(changed), m.at(1000), state);
  EXPECT_EQ(state.policies.at(1).latches.at(0).latch.phase, latch_phase::engaged);
  EXPECT_EQ(state.held.size(), 2u);
  // A policy that is gone holds nothing; what it moved stays.
  evaluate(*policy_set::empty(), m.at(2000), state);
  EXPECT_TRUE(state.held.empty());
}

TEST(evaluate, brings_things_home_when_the_object_they_were_judged_for_is_gone) {
  machine m = one_gpu(95);
  pipeline_state state;
  const policy_set_ptr policies = set_of(hot);
  m.carry_out(evaluate(*policies, m.at(0), state).planned, 0);
  evaluate(*policies, m.at(1000), state);
  snapshot lost = m.at(2000);
  std::erase_if(lost.devices, [](const device_state& d) { return d.name == "vulkan:a"; });
  const decision d = evaluate(*policies, lost, state);
  EXPECT_TRUE(d.planned.moves.empty());
  ASSERT_EQ(d.records.size(), 1u);
  EXPECT_THAT(explain_text(d.records[0]), HasSubstr("no such device"));
  m.device("vulkan:a").state.temp_c.value = 50;
  EXPECT_EQ(evaluate(*policies, m.at(3000), state).planned.moves.size(), 2u);
}

TEST(evaluate, fetches_what_a_vanished_session_had_without_a_trace) {
  const policy_set_ptr policies = set_of(
      "  - name: kv\n"
      "    for_each: session\n"
      "    enter: {metric: idle_s, above: 45s}\n"
      "    leave: {metric: idle_s, below: 1s}\n"
      "    do: {spill: kv, to: cpu}\n"
      "    undo: restore\n");
  machine m = one_gpu(50);
  m.add_session("s", 5000, gib, "vulkan:a");
  m.session("s").idle_s = 60;
  pipeline_state state;
  const decision d = evaluate(*policies, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 1u);
  EXPECT_EQ(d.planned.moves[0].kind, subject_kind::session_kv);
  m.carry_out(d.planned, 0);
  snapshot after = m.at(1000);
  after.sessions.clear();
  EXPECT_TRUE(evaluate(*policies, after, state).planned.moves.empty());
  EXPECT_TRUE(state.held.empty());
  EXPECT_TRUE(state.policies.at(1).latches.empty());
}

// Everything that is told is also valid JSON; YAML reads it.
void expect_json(const std::string& text) {
  const auto parsed = yaml::parse_document("json", text);
  EXPECT_TRUE(parsed.has_value()) << to_string(parsed.error()) << "\n" << text;
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

// A snapshot of one session whose KV fills a card, and a policy that would spill it.
struct full_card {
  machine m;
  policy_set_ptr policies = set_of(
      "  - name: spill\n    for_each: gpu\n    enter: {metric: vram.ours, above: 1GiB}\n"
      "    leave: {metric: vram.ours, below: 512MiB}\n    do: {spill: kv, to: cpu}\n");
  pipeline_state state;

  full_card() {
    m.add_device("cpu", 32 * gib);
    m.add_device("vulkan:a", 8 * gib);
    m.add_session("1", 4096, 2 * gib, "vulkan:a");
  }
  decision look(std::int64_t at_ms, std::vector<completed_move> ended = {}) {
    snapshot now = m.at(at_ms);
    now.completed = std::move(ended);
    return evaluate(*policies, now, state);
  }
};

TEST(evaluate, what_moved_nothing_did_not_help_and_backs_off) {
  full_card c;
  std::vector<std::int64_t> planned_at;
  std::vector<completed_move> ended;
  for (std::int64_t t = 0; t < 120'000 && planned_at.size() < 4; t += 1000) {
    const decision d = c.look(t, std::exchange(ended, {}));
    ASSERT_LE(d.planned.moves.size(), 1u);
    if (d.planned.moves.empty()) continue;
    const planned_move& m = d.planned.moves[0];
    planned_at.push_back(t);
    ended.push_back({m.id, m.kind, m.subject, m.from, m.to, t + 500, move_outcome::idle, ""});
  }
  ASSERT_EQ(planned_at.size(), 4u);
  for (std::size_t i = 2; i < planned_at.size(); i++)
    EXPECT_GT(planned_at[i] - planned_at[i - 1], planned_at[i - 1] - planned_at[i - 2]);
  EXPECT_GT(planned_at[3] - planned_at[2], 15'000);
  for (std::int64_t t : {1000, 2000, 3000}) {
    EXPECT_TRUE(c.look(planned_at.back() + t, std::exchange(ended, {})).planned.moves.empty());
    EXPECT_TRUE(c.state.held.empty());
  }
  // Asked before its time, it says why not.
  c.state.policies[1].latches[0].latch.retry_ms = reading::never;
  const decision d = c.look(planned_at.back() + 4000);
  ASSERT_EQ(d.records.size(), 1u);
  EXPECT_THAT(explain_text(d.records[0]), HasSubstr("to cpu moved nothing 4 times in a row"));
}

TEST(evaluate, what_brings_next_to_nothing_is_not_tried_again_and_again) {
  full_card c;
  std::vector<std::int64_t> planned_at;
  std::vector<completed_move> ended;
  for (std::int64_t t = 0; t < 60'000; t += 1000) {
    // Each second a page of 1 MiB is full; what leaves is made again at once.
    kv_residency& kv = c.m.session("1").kv[0];
    kv.open_bytes = kv.bytes - static_cast<std::uint64_t>(mib);
    const decision d = c.look(t, std::exchange(ended, {}));
    if (d.planned.moves.empty()) continue;
    const planned_move& m = d.planned.moves[0];
    EXPECT_EQ(m.bytes, static_cast<std::uint64_t>(mib));
    EXPECT_THAT(explain_text(d.records[0]), HasSubstr("That is next to nothing"));
    planned_at.push_back(t);
    ended.push_back({m.id, m.kind, m.subject, m.from, m.to, t + 500, move_outcome::done, ""});
  }
  EXPECT_LE(planned_at.size(), 6u);
  EXPECT_GE(planned_at.size(), 4u);
}

TEST(evaluate, why_nothing_can_be_done_is_told_once) {
  full_card c;
  kv_residency& kv = c.m.session("1").kv[0];
  kv.open_bytes = kv.empty_bytes = kv.bytes;
  std::size_t told = 0;
  for (std::int64_t t = 0; t < 3'600'000; t += 1000) told += c.look(t).records.size();
  EXPECT_EQ(told, 1u);
  c.m.device("cpu").others = 32 * gib;
  kv.open_bytes = 0;  // now it is for another reason
  for (std::int64_t t = 3'600'000; t < 3'800'000; t += 1000) told += c.look(t).records.size();
  EXPECT_EQ(told, 2u);
}

TEST(explain, tells_a_person_what_policies_make_of_a_move_by_hand) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  m.carry_out(evaluate(*policies, m.at(0), state).planned, 0);
  for (std::int64_t t = 1000; t < 5000; t += 1000) evaluate(*policies, m.at(t), state);
  const auto notes = [&](const std::vector<std::string>& parts, const std::string& device) {
    return notes_on_move(*policies, m.at(5000), state, parts, device);
  };
  EXPECT_THAT(notes({"layer.0.ffn", "layer.0.attn"}, "cpu"),
              testing::ElementsAre("policy 'hot' had brought layer.0.ffn and 1 more there for a "
                                   "while; now it does not bring them back to vulkan:a"));
  state.held.at({subject_kind::part, "layer.0.ffn"}).by.push_back({"night", "host", false, ""});
  EXPECT_THAT(notes({"layer.0.ffn"}, "cpu"),
              testing::ElementsAre("policies 'hot' and 'night' had brought layer.0.ffn there for a "
                                   "while; now they do not bring it back to vulkan:a"));
  EXPECT_THAT(notes({"layer.0.ffn"}, "vulkan:a"),
              testing::ElementsAre("policy 'hot' would take layer.0.ffn away again, to cpu: temp_c "
                                   "is 95 C (above 85 C); terranectl policy disable hot keeps it "
                                   "there"));
  m.device("vulkan:a").state.temp_c.value = 50;
  EXPECT_THAT(notes({"layer.0.ffn"}, "vulkan:a"), testing::IsEmpty());
  // What was about to go home stays with whom it is put there by.
  state.held.at({subject_kind::part, "layer.0.ffn"}).by = {{"hot", "vulkan:a", true, "cool"}};
  EXPECT_THAT(notes({"layer.0.ffn"}, "cpu"), testing::ElementsAre(HasSubstr("'hot' had brought")));
  snapshot yields = m.at(5000);
  yields.yields.push_back({.device = "vulkan:a", .by = "user 1"});
  EXPECT_THAT(notes_on_move(*policies, yields, state, {"layer.0.ffn"}, "vulkan:a"),
              testing::ElementsAre(HasSubstr("; terranectl yield --end vulkan:a keeps it there")));
}

TEST(explain, says_what_a_policy_waits_for_and_how_it_is_now) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  snapshot now = m.at(0);
  now.yields.push_back({.device = "vulkan:a", .by = "user 1"});
  m.carry_out(evaluate(*policies, now, state).planned, 0);
  now = m.at(1000);
  now.yields.push_back({.device = "vulkan:a", .by = "user 1"});
  now.parts[0].placed_by_user = true;
  const std::string why = why_text(now.parts[0].name, *policies, now, state, journal());
  EXPECT_THAT(why, HasSubstr("it releases when yield.asked is false (now true, sampled 0 ms ago: "
                             "not met)."));
  EXPECT_THAT(why, HasSubstr("; a person put it there.\n"));
}

TEST(explain, answers_in_sentences_and_in_json) {
  const policy_set_ptr policies = set_of(hot);
  machine m = one_gpu(95);
  pipeline_state state;
  journal past;
  const decision d = evaluate(*policies, m.at(0), state);
  past.add(d);
  m.carry_out(d.planned, 0);
  const snapshot& now = m.at(1000);
  past.add(evaluate(*policies, now, state));

  const decision_record* record = past.find(d.records.at(0).id);
  ASSERT_NE(record, nullptr);
  EXPECT_THAT(explain_text(*record), HasSubstr("policy 'hot' engaged for vulkan:a (t.yaml:3:5)"));
  EXPECT_THAT(explain_text(*record), HasSubstr("temp_c is 95 C, limit above 85 C"));
  expect_json(explain_json(*record));
  EXPECT_THAT(explain_json(*record), HasSubstr("\"metric\":\"temp_c\",\"compare\":\"above\""));
  expect_json(plan_json(d));
  EXPECT_THAT(plan_text(d), HasSubstr("move layer.0.ffn from vulkan:a to cpu, 200 MiB"));

  const std::string why = why_text("layer.0.ffn", *policies, now, state, past);
  EXPECT_THAT(why, HasSubstr("layer.0.ffn is on cpu (weights 200 MiB"));
  EXPECT_THAT(why, HasSubstr("it came there by a move 500 ms ago"));
  EXPECT_THAT(why, HasSubstr("Policy 'hot' (for vulkan:a) holds it away from its home, vulkan:a"));
  EXPECT_THAT(why, HasSubstr("Last moved by decision 1"));
  expect_json(why_json("layer.0.ffn", *policies, now, state, past));
  expect_json(why_json("no such thing", *policies, now, state, past));
  EXPECT_THAT(why_text("layer.9.ffn", *policies, now, state, past), HasSubstr("There is no part"));

  const auto statuses = policy_statuses(*policies, now, state);
  ASSERT_EQ(statuses.size(), 1u);
  EXPECT_TRUE(statuses[0].engaged);
  EXPECT_EQ(statuses[0].state, "settling");
  expect_json(to_json(statuses[0]));
}

TEST(explain, escapes_whatever_a_name_holds) {
  decision_record r;
  r.policy = "a\"b\\c\n\x01\xff\xc3\xa9";
  const std::string text = explain_json(r);
  EXPECT_THAT(text, HasSubstr("\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\xc3\xa9\""));
}

TEST(journal, keeps_the_last_and_forgets_the_rest) {
  journal past(3);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    decision d;
    decision_record r;
    r.id = id;
    candidate c;
    c.subject = "p" + std::to_string(id);
    c.removed_by = id == 1 ? filter::none : filter::no_room;
    r.candidates.push_back(c);
    d.records.push_back(r);
    past.add(d);
  }
  EXPECT_EQ(past.find(2), nullptr);
  EXPECT_EQ(past.find(5)->id, 5u);
  ASSERT_EQ(past.recent(10).size(), 3u);
  EXPECT_EQ(past.recent(10)[0]->id, 5u);
  // By part they are kept longer.
  EXPECT_EQ(past.last_move_of("p1")->id, 1u);
  EXPECT_EQ(past.last_refusal_of("p2")->id, 2u);
  EXPECT_EQ(past.last_refusal_of("p1"), nullptr);
}

// Random machines, sensors and policies: whatever happens, these hold.
class random_trace : public testing::TestWithParam<unsigned> {};

TEST_P(random_trace, never_breaks_a_rule) {
  const policy_set_ptr policies = set_of(
      "  - name: full\n"
      "    for_each: gpu\n"
      "    min_stay: 10s\n"
      "    enter: {metric: vram.used_ratio, above: 90%, held: 2s}\n"
      "    leave: {metric: vram.used_ratio, below: 80%, held: 5s}\n"
      "    do: {move: layers, to: [most_free, cpu]}\n"
      "    undo: restore\n"
      "  - name: hot\n"
      "    for_each: gpu\n"
      "    priority: 90\n"
      "    min_stay: 10s\n"
      "    cooldown: 5s\n"
      "    enter: {metric: temp_c, above: 85C}\n"
      "    leave: {metric: temp_c, below: 70C, held: 5s}\n"
      "    do: {move: layers, order: largest_first, until: 1GiB, to: coolest}\n"
      "    undo: restore\n"
      "  - name: idle\n"
      "    for_each: session\n"
      "    enter: {metric: idle_s, above: 20s}\n"
      "    leave: {metric: idle_s, below: 1s}\n"
      "    do: {spill: kv, keep_tokens: 100, to: cpu}\n"
      "    undo: restore\n");
  std::mt19937 random(GetParam());
  const auto below = [&](double most) {
    return std::uniform_real_distribution<double>(0, most)(random);
  };
  machine m;
  m.add_device("cpu", 8 * gib, 2 * gib).state.temp_c = {50, 0};
  for (const char* name : {"vulkan:a", "vulkan:b", "vulkan:c"}) {
    m.add_device(name, 4 * gib).state.temp_c = {50, 0};
    m.device(name).state.vram_reserved = {200 * mib, 0, 1'000'000'000};
  }
  m.add_layers(6, 100 * mib, 200 * mib, "vulkan:a", 10 * mib);
  m.add_session("s", 4000, 200 * mib, "vulkan:b");
  pipeline_state state;
  std::size_t moves = 0;
  for (std::int64_t second = 0; second < 3000; ++second) {
    for (const char* name : {"vulkan:a", "vulkan:b", "vulkan:c"}) {
      if (below(1) < 0.1) m.device(name).others = below(3.5 * gib);
      if (below(1) < 0.1) m.device(name).state.temp_c.value = 40 + below(60);
      if (below(1) < 0.02) m.stop_sensor(name, "vram");
      if (below(1) < 0.1) m.resume_sensor(name, "vram");
    }
    m.broken_targets.clear();
    if (below(1) < 0.1) m.broken_targets.insert("vulkan:b");
    m.move_ms = static_cast<std::int64_t>(below(5000));
    m.session("s").idle_s = below(1) < 0.1 ? 0 : m.session("s").idle_s + 1;
    const snapshot& now = m.at(second * 1000);
    const decision d = evaluate(*policies, now, state);
    std::map<std::string, double> planned;
    for (const planned_move& move : d.planned.moves) {
      ++moves;
      ASSERT_FALSE(move.reason.empty());
      ASSERT_TRUE(std::ranges::any_of(
          d.records, [&](const decision_record& r) { return r.id == move.decision; }));
      for (const move_in_progress& running : now.moving) ASSERT_NE(running.subject, move.subject);
      if (move.kind == subject_kind::part) {
        const part_state& p = *find_part(now, move.subject);
        ASSERT_EQ(p.device, move.from);
        ASSERT_NE(move.from, move.to);
        const bool settled = p.moved_ms == reading::never || now.time_ms - p.moved_ms >= 10'000;
        ASSERT_TRUE(settled) << move.subject << " at " << second;
      }
      planned[move.to] += static_cast<double>(move.bytes);
    }
    for (const auto& [name, bytes] : planned) {
      if (name.empty()) continue;
      const device_state& to = *find_device(now, name);
      const double reserve = to.vram_reserved.present() ? to.vram_reserved.value : 0;
      ASSERT_LE(bytes, free_bytes(to).value - reserve) << name << " at " << second;
    }
    m.carry_out(d.planned, now.time_ms);
    ASSERT_LE(state.held.size(), 13u);
    ASSERT_LE(state.issued.size(), 13u);
    ASSERT_LE(state.failures.size(), 52u);
  }
  EXPECT_GT(moves, 20u);
}

INSTANTIATE_TEST_SUITE_P(seeds, random_trace, testing::Range(1u, 9u));

// What a user's quota keeps back does not go on with time, as what a rate limit keeps back does.
TEST(evaluate, what_a_users_quota_leaves_is_a_trifle) {
  const policy_set_ptr policies = set_of(
      "  - name: share\n    for_each: tenant\n    quota: {bytes: 1GiB, on: gpu}\n"
      "    enter: {metric: tenant.sessions, above: 90}\n"
      "    leave: {metric: tenant.sessions, below: 80}\n    do: {spill: kv, to: cpu}\n"
      "  - name: full\n    for_each: cpu\n"
      "    enter: {metric: vram.used, above: 2GiB}\n"
      "    leave: {metric: vram.used, below: 1GiB}\n    do: {spill: kv, to: cuda}\n");
  machine m;
  m.add_device("cpu", 8 * gib);
  m.add_device("cuda:a", 8 * gib);
  m.add_session("1", 9000, 3 * gib, "cpu").tenant = "ann";
  m.add_session("2", 9000, 10 * mib, "cpu").tenant = "bob";
  pipeline_state state;
  const decision d = evaluate(*policies, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 1u);
  EXPECT_EQ(d.planned.moves[0].subject, "2");
  EXPECT_THAT(explain_text(d.records.at(0)), HasSubstr("That is next to nothing"));
  EXPECT_THAT(explain_text(d.records.at(0)), HasSubstr("its user's quota"));
}

}  // namespace
}  // namespace terrane::policies
