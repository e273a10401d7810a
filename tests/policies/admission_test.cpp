// Quotas: what counts where, who is refused, what a policy file may say of them.
#include "policies/pipeline/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "policies/planner/quota.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::gib;
using tests::machine;
using tests::mib;

machine two_cards() {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 8 * gib);
  m.add_device("vulkan:b", 8 * gib);
  m.add_session("1", 1000, 1 * gib, "cpu").tenant = "ann";
  m.add_session("2", 1000, 2 * gib, "cuda:a").tenant = "ann";
  m.add_session("3", 1000, 4 * gib, "vulkan:b").tenant = "ann";
  return m;
}

std::string policy(const std::string& quota, const std::string& more = "") {
  return "apiVersion: terrane/v1\npolicies:\n  - name: share\n    for_each: tenant\n" + more +
         "    quota: " + quota +
         "\n    enter: {metric: tenant.sessions, above: 90}\n"
         "    leave: {metric: tenant.sessions, below: 80}\n    do: {spill: kv, to: cpu}\n";
}

std::vector<std::string> faults_of(const std::string& text, const std::string& name = "p.yaml") {
  const auto set = policy_set::from_sources({{name, text}});
  std::vector<std::string> out;
  for (const diagnostic& d : set ? (*set)->warnings() : set.error()) out.push_back(to_string(d));
  return out;
}

TEST(admission, counts_where_the_quota_says) {
  machine m = two_cards();
  const snapshot& now = m.at(0);
  const tenant_state& ann = *find_tenant(now, "ann");
  const auto held = [&](const std::string& on) {
    return static_cast<double>(counted_bytes({1, on}, now, ann.kv)) / gib;
  };
  EXPECT_EQ(held("all"), 7);
  EXPECT_EQ(held("gpu"), 6);
  EXPECT_EQ(held("cpu"), 1);
  EXPECT_EQ(held("cuda:*"), 2);
  EXPECT_EQ(held("vulkan:b"), 4);
}

TEST(admission, refuses_who_is_over_and_nobody_else) {
  machine m = two_cards();
  m.add_session("4", 1000, 1 * gib, "cuda:a").tenant = "bob";
  const auto refused = [&](const std::string& text, const std::string& who) {
    const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", text}});
    pipeline_state state;
    const snapshot& now = m.at(1000);
    evaluate(*set, now, state);
    const auto answer = refuse_admission(*set, now, state, {who, {}});
    return answer ? answer->message : std::string();
  };
  EXPECT_THAT(refused(policy("{bytes: 3GiB, on: \"vulkan:*\"}"), "ann"),
              HasSubstr("ann holds 4 GiB of KV cache on vulkan:*, and policy 'share' (p.yaml:3:5) "
                        "allows 3 GiB"));
  EXPECT_EQ(refused(policy("{bytes: 3GiB, on: \"vulkan:*\"}"), "bob"), "");
  EXPECT_EQ(refused(policy("{bytes: 3GiB, on: \"cuda:*\"}"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 7GiB}"), "ann"), "");  // just what is allowed
  EXPECT_NE(refused(policy("{bytes: 6.9GiB}"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}", "    mode: shadow\n"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}", "    only: bob\n"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}"), "carla"), "");  // has no session
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", policy("{bytes: 1GiB}")}});
  snapshot now = m.at(2000);
  EXPECT_TRUE(refuse_admission(*set, now, {}, {"ann", {}}));
  now.disabled = {"share"};
  EXPECT_FALSE(refuse_admission(*set, now, {}, {"ann", {}}));
}

const char* const spills =
    "apiVersion: terrane/v1\npolicies:\n  - name: share\n    for_each: tenant\n"
    "    quota: {bytes: 4GiB, on: gpu}\n"
    "    enter: {metric: tenant.gpu_kv_bytes, above: 4GiB, held: 5s}\n"
    "    leave: {metric: tenant.gpu_kv_bytes, below: 3GiB, held: 5s}\n"
    "    do: {spill: kv, to: cpu}\n";

// A reply to ann is about to be written: all of its KV is reserved, none of it can move.
machine replying() {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  kv_residency& running = m.add_session("1", 100, 3 * gib, "cuda:a").kv[0];
  m.session("1").tenant = "ann";
  running.open_bytes = running.empty_bytes = running.bytes;
  return m;
}

// A request of ann for so much KV on the card; empty: it is admitted.
std::string asked(const policy_set_ptr& set, const snapshot& now, const pipeline_state& state,
                  double bytes) {
  const admission_request request{"ann", {{"cuda:a", static_cast<std::uint64_t>(bytes)}}};
  const auto answer = refuse_admission(*set, now, state, request);
  return answer ? answer->message : std::string();
}

TEST(admission, counts_what_the_request_would_reserve) {
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", spills}});
  machine m = replying();
  pipeline_state state;
  EXPECT_EQ(asked(set, m.at(0), state, 1 * gib), "");
  EXPECT_THAT(asked(set, m.at(0), state, 1.5 * gib),
              HasSubstr("ann holds 3 GiB of KV cache on GPUs, this request would reserve 1.5 GiB"));
  // One alone that no quota can hold.
  EXPECT_THAT(asked(set, m.at(0), state, 5 * gib),
              EndsWith("; this request alone is past that: have the quota raised"));
  m.end_session("1");
  EXPECT_NE(asked(set, m.at(0), state, 5 * gib), "");
  EXPECT_EQ(asked(set, m.at(0), state, 4 * gib), "");
}

// What is advised would help.
TEST(admission, advises_only_what_would_help) {
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", spills}});
  machine m = replying();
  const auto advised = [&](double needs, double least) {
    const auto bytes = [](double n) {
      return std::vector<kv_residency>{{"cuda:a", static_cast<std::uint64_t>(n * gib)}};
    };
    const auto refused = refuse_admission(*set, m.at(0), {}, {"ann", bytes(needs), bytes(least)});
    if (!refused) return std::string("admitted");
    return refused->message.substr(refused->message.find("; ") + 2);
  };
  const std::string shorter = "ask for a shorter reply (--max-tokens)";
  const std::string end = "end a session (terranectl sessions, terranectl close NUMBER)";
  EXPECT_EQ(advised(1, 1), "admitted");
  EXPECT_EQ(advised(2, 1), shorter + ", or " + end + ", and ask again");
  EXPECT_EQ(advised(2, 0), shorter + ", or " + end + ", and ask again");
  EXPECT_EQ(advised(5, 1), shorter + ", or have the quota raised");
  EXPECT_EQ(advised(2, 2), end + ", and ask again");
  EXPECT_EQ(advised(3, 2), end + ", and ask again");
  EXPECT_EQ(advised(5, 2), end + " and " + shorter + ", or have the quota raised");
  EXPECT_EQ(advised(9, 5), "no reply to this prompt fits, however short: have the quota raised");
}

TEST(admission, is_by_the_bytes_that_the_policy_can_bring_away) {
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", spills}});
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  m.add_session("1", 9000, 3 * gib, "cuda:a").tenant = "ann";
  pipeline_state state;
  EXPECT_EQ(asked(set, m.at(0), state, 3.5 * gib), "");  // all 3 can go to the host
  m.session("1").kv[0].open_bytes = static_cast<std::uint64_t>(2 * gib);
  EXPECT_NE(asked(set, m.at(0), state, 3.5 * gib), "");
  EXPECT_EQ(asked(set, m.at(0), state, 2 * gib), "");
  // What is under way counts once, however small it is beside what is too much.
  m.session("1").kv[0].open_bytes = 0;
  m.device("cpu").others = 31 * gib;
  planned_move trifle;
  trifle.kind = subject_kind::session_kv;
  trifle.subject = "1";
  trifle.to = "cpu";
  trifle.bytes = static_cast<std::uint64_t>(mib);
  state.issued[1] = {trifle, "ann", 0, false, false};
  EXPECT_THAT(asked(set, m.at(0), state, 2 * gib), HasSubstr("1 MiB are on their way out"));
  EXPECT_EQ(asked(set, m.at(0), state, 1 * gib), "");
  // A policy that found nothing to move is not counted on until it tries again.
  state = {};
  m.device("cpu").others = 0;
  evaluate(*set, m.at(1000), state);
  state.policies[1].latches[0].latch.retry_ms = 60'000;
  EXPECT_NE(asked(set, m.at(2000), state, 2 * gib), "");
  EXPECT_EQ(asked(set, m.at(61'000), state, 2 * gib), "");
}

TEST(admission, a_lua_policy_is_asked_what_it_would_bring_away) {
  const auto set = policy_set::from_sources(
      {{"p.lua",
        "policy 'share' { for_each = 'tenant', quota = { bytes = GiB(4), on = 'gpu' },\n"
        "  enter = above('tenant.gpu_kv_bytes', '4GiB'), leave = below('tenant.gpu_kv_bytes', "
        "'3GiB'),\n  plan = function (tenant, out)\n"
        "    for one in tenant:sessions():until_bytes(tenant.gpu_kv_bytes - GiB(3)) do\n"
        "      out:spill(one.kv, { to = 'cpu' }, 'too much')\n    end\n  end }\n"}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  m.add_session("1", 9000, 3 * gib, "cuda:a").tenant = "ann";
  EXPECT_EQ(asked(*set, m.at(0), {}, 2 * gib), "");
  m.device("cpu").others = 32 * gib;
  EXPECT_NE(asked(*set, m.at(0), {}, 2 * gib), "");
}

TEST(admission, nothing_is_brought_back_past_a_quota) {
  std::string text = spills;
  text +=
      "  - name: back\n    for_each: session\n    enter: {metric: idle_s, below: 5}\n"
      "    leave: {metric: idle_s, above: 10}\n    do: {fetch: kv}\n";
  const auto set = policy_set::from_sources({{"p.yaml", text}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  session_state& away = m.add_session("1", 9000, 2 * gib, "cpu");
  away.tenant = "ann";
  away.home = "cuda:a";
  m.add_session("2", 9000, 3 * gib, "cuda:a").tenant = "ann";
  pipeline_state state;
  const decision d = evaluate(**set, m.at(0), state);
  EXPECT_TRUE(d.planned.moves.empty());
  ASSERT_FALSE(d.records.empty());
  EXPECT_THAT(explain_text(d.records[0]), HasSubstr("ann holds 3 GiB on GPUs, and policy 'share'"));
  m.session("2").tenant = "bob";
  pipeline_state other;
  EXPECT_EQ(evaluate(**set, m.at(0), other).planned.moves.size(), 1u);
}

// KV of ann that is on its way to the card.
TEST(admission, counts_what_is_on_its_way_in) {
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", spills}});
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  m.add_session("1", 9000, 3 * gib, "cpu").tenant = "ann";
  kv_residency& running = m.add_session("2", 9000, 1 * gib, "cuda:a").kv[0];
  m.session("2").tenant = "ann";
  running.open_bytes = running.bytes;
  planned_move there;
  there.kind = subject_kind::session_kv;
  there.action = verb::spill;
  there.subject = "1";
  there.to = "cuda:a";
  there.bytes = static_cast<std::uint64_t>(2 * gib);
  pipeline_state state;
  EXPECT_EQ(asked(set, m.at(0), state, 2 * gib), "");
  state.issued[1] = {there, "ann", 0, false, false};
  EXPECT_EQ(asked(set, m.at(0), state, 1 * gib), "");
  EXPECT_THAT(asked(set, m.at(0), state, 2 * gib),
              HasSubstr("ann holds 1 GiB of KV cache on GPUs, 2 GiB more are on their way there"));
  // A person's, of which nobody knows yet how much it is.
  snapshot now = m.at(0);
  now.moving.push_back({0, subject_kind::session_kv, "1", "", "cuda:a", 0});
  EXPECT_EQ(asked(set, now, {}, 0), "");
  EXPECT_NE(asked(set, now, {}, 1 * gib), "");
  // With parts: of two layers on the host, one goes.
  m.add_layers(2, mib, mib, "cpu");
  now = m.at(0);
  for (session_state& s : now.sessions) s.kv[0].away_bytes = 0;
  now.moving.push_back({0, subject_kind::part, "layer.0.attn", "cpu", "cuda:a", 0});
  EXPECT_EQ(asked(set, now, {}, 1.5 * gib), "");
  EXPECT_NE(asked(set, now, {}, 1.6 * gib), "");
}

machine two_away() {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 32 * gib);
  for (const char* id : {"1", "2"}) {
    session_state& away = m.add_session(id, 9000, 3 * gib, "cpu");
    away.tenant = "ann";
    away.home = "cuda:a";
  }
  return m;
}

policy_set_ptr with(const std::string& more) {
  const auto set = policy_set::from_sources({{"p.yaml", spills + more}});
  EXPECT_TRUE(set.has_value()) << to_string(set.error().front());
  return set.value_or(policy_set::empty());
}

TEST(admission, two_sessions_that_are_brought_back_are_counted_together) {
  const policy_set_ptr set = with(
      "  - name: back\n    for_each: session\n    enter: {metric: idle_s, below: 5}\n"
      "    leave: {metric: idle_s, above: 10}\n    do: {fetch: kv}\n");
  machine m = two_away();
  pipeline_state state;
  const decision d = evaluate(*set, m.at(0), state);
  ASSERT_EQ(d.planned.moves.size(), 1u);
  EXPECT_EQ(d.planned.moves[0].subject, "1");
  ASSERT_EQ(d.records.size(), 2u);
  EXPECT_EQ(d.records[1].candidates.at(0).removed_by, filter::user_quota);
  EXPECT_THAT(explain_text(d.records[1]), HasSubstr("3 GiB more are to come there"));
  // So is what was planned before and is under way.
  pipeline_state later;
  later.issued[1] = {d.planned.moves[0], "1", 0, false, false};
  later.next_move = 2;
  EXPECT_TRUE(evaluate(*set, m.at(1000), later).planned.moves.empty());
}

TEST(admission, two_sessions_of_one_plan_are_counted_together) {
  const policy_set_ptr set = with(
      "  - name: full\n    for_each: cpu\n    enter: {metric: vram.used, above: 2GiB}\n"
      "    leave: {metric: vram.used, below: 1MiB}\n    do: {spill: kv, to: cuda}\n");
  machine m = two_away();
  pipeline_state state;
  EXPECT_EQ(evaluate(*set, m.at(0), state).planned.moves.size(), 1u);
}

TEST(admission, what_a_file_may_say) {
  EXPECT_THAT(faults_of(policy("{bytes: 4GiB, on: gpu}")), IsEmpty());
  EXPECT_THAT(faults_of(policy("{bytes: 0}")), Contains(HasSubstr("'quota' needs bytes above")));
  EXPECT_THAT(
      faults_of(policy("{bytes: 4GiB, on: gpus}")),
      Contains(HasSubstr(
          "'quota' cannot be on 'gpus'; it takes all, gpu, cpu, cuda, vulkan, a device's")));
  EXPECT_THAT(faults_of(policy("{byte: 4GiB}")), Contains(HasSubstr("did you mean 'bytes'?")));
  std::string for_cards = policy("{bytes: 4GiB}");
  for_cards.replace(for_cards.find("for_each: tenant"), 16, "for_each: gpu");
  EXPECT_THAT(faults_of(for_cards), Contains(HasSubstr("use for_each: tenant")));
  std::string late = policy("{bytes: 1GiB, on: gpu}");
  late.replace(late.find("tenant.sessions, above: 90"), 26, "tenant.gpu_kv_bytes, above: 2GiB");
  EXPECT_THAT(faults_of(late), Contains(HasSubstr("'enter' lies above the quota")));
}

TEST(admission, lua_has_it_too) {
  const auto lua = [](const std::string& quota) {
    return "policy 'share' {\n for_each = 'tenant', quota = " + quota +
           ",\n enter = above('tenant.sessions', 9), leave = below('tenant.sessions', 5),\n"
           " plan = function (tenant, out) out:decline 'no' end }\n";
  };
  const auto set = policy_set::from_sources({{"p.lua", lua("{ bytes = GiB(4), on = 'cuda:*' }")}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  EXPECT_EQ((*set)->rules()[0].quota.bytes, std::uint64_t{4} << 30);
  EXPECT_EQ((*set)->rules()[0].quota.on, "cuda:*");
  EXPECT_THAT(faults_of(lua("{ bytes = '2GiB' }"), "p.lua"), IsEmpty());
  EXPECT_THAT(faults_of(lua("4"), "p.lua"), Contains(HasSubstr("'quota' must be a table")));
  EXPECT_THAT(faults_of(lua("{ on = 'gpu' }"), "p.lua"), Contains(HasSubstr("bytes above zero")));
  EXPECT_THAT(faults_of(lua("{ bytes = 1, no = 2 }"), "p.lua"), Contains(HasSubstr("no key 'no'")));
}

}  // namespace
}  // namespace terrane::policies
