// Who may begin, asked while the engine and the control loop differ in what they know.
#include "daemon/service/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/bench_model.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

using testing::HasSubstr;

constexpr std::int64_t owner = 4'000'000;  // whom no machine has a name for

struct roomy final : telemetry_source {
  std::string_view name() const override { return "roomy"; }
  void sample(policies::snapshot& s) override {
    for (policies::device_state& d : s.devices) {
      d.vram_total = {1 << 30, s.time_ms};
      d.vram_used = {0, s.time_ms};
    }
  }
};

struct admission_test : testing::Test {
  std::int64_t now_ms = 0;
  ipc::event_hub events;
  user_names users;
  test_engine t = engine_with_a_card();
  control_loop loop = make();

  control_loop make() {
    telemetry_sources sources;
    sources.push_back(std::make_unique<roomy>());
    return control_loop(*t.engine, snapshot_builder(*t.engine, std::move(sources), {}),
                        *policies::policy_set::from_sources({}), events, [this] { return now_ms; });
  }

  // A quota on the CPU, and a policy that spills all but the newest 64 tokens of who has a session.
  void allow(std::uint64_t bytes) {
    auto set = policies::policy_set::from_sources(
        {{"p.yaml",
          "apiVersion: terrane/v1\npolicies:\n  - name: share\n    for_each: tenant\n"
          "    quota: {bytes: " +
              std::to_string(bytes) +
              ", on: cpu}\n"
              "    enter: {metric: tenant.kv_bytes, above: 2KiB}\n"
              "    leave: {metric: tenant.kv_bytes, below: 1KiB}\n"
              "    do: {spill: kv, keep_tokens: 64, until: all, to: \"vulkan:card\"}\n"}});
    ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
    loop.use(*set);
  }
  static engine::generate_request request(std::size_t prompt, std::uint32_t reply,
                                          engine::session_id session = 0) {
    engine::generate_request r;
    r.session = session;
    r.prompt.assign(prompt, 7);
    r.max_tokens = reply;
    r.owner = owner;
    r.keep = true;
    return r;
  }
  std::vector<std::uint64_t> needed(std::size_t prompt, std::uint32_t reply,
                                    engine::session_id session = 0) {
    return kv_needed(t.engine->loaded_model(), t.engine->options(), t.engine->status(), session,
                     prompt, reply);
  }
  engine::session_id give(engine::generate_request r) {
    const auto reply = std::make_shared<bench::recorder>();
    const result<engine::session_id> id = t.engine->generate(std::move(r), reply);
    EXPECT_TRUE(id.has_value());
    reply->wait();
    return id.value_or(0);
  }
  std::vector<std::uint64_t> held(engine::session_id session) {
    for (const engine::session_status& s : t.engine->status().sessions)
      if (s.id == session) return held(s);
    return {0, 0};
  }
  static std::vector<std::uint64_t> held(const engine::session_status& s) {
    std::vector<std::uint64_t> out;
    for (const engine::kv_share& k : s.kv) out.push_back(k.bytes);
    return out;
  }
  // Looks until a move of the policy is done, and no more.
  void spill() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      now_ms += 1000;
      loop.tick();
      while (!t.engine->status().moves.empty()) std::this_thread::yield();
      for (const engine::session_status& s : t.engine->status().sessions)
        if (s.kv.at(1).bytes > 0) return;
    }
    FAIL() << "nothing was spilled";
  }
  std::size_t moves_not_taken_in() const {
    return loop.look([](const auto&, const auto&, const policies::pipeline_state& state,
                        const auto&) { return state.issued.size(); });
  }
};

TEST_F(admission_test, a_spill_that_is_done_and_not_taken_in_yet_counts_once) {
  const engine::session_id id = give(request(200, 1));
  allow(std::uint64_t{1} << 30);
  spill();
  ASSERT_EQ(moves_not_taken_in(), 1U);
  // Pages that are full are left, which a spill could still take, and did not.
  const engine::kv_share here = t.engine->status().sessions.at(0).kv.at(0);
  ASSERT_GT(here.bytes, here.open_bytes);
  const std::uint64_t would_hold = held(id)[0] + needed(10, 10)[0];
  allow(would_hold);
  EXPECT_FALSE(over_quota(*t.engine, loop, users, request(10, 10)));
  allow(would_hold - 1);
  const auto refused = over_quota(*t.engine, loop, users, request(10, 10));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->held_bytes, held(id)[0]);
  EXPECT_THAT(refused->message, testing::Not(HasSubstr("on their way")));
}

// What a request is said to need is what its session has more once it is admitted.
TEST_F(admission_test, what_a_request_needs_is_what_it_then_holds) {
  engine::move_request there;
  there.parts.push_back({t.engine->loaded_model().attention_part(1), 1});
  ASSERT_EQ(bench::move_and_wait(*t.engine, there).state, engine::move_state::committed);
  const auto expect_held = [&](std::size_t prompt, std::uint32_t reply, engine::session_id of) {
    SCOPED_TRACE(std::to_string(prompt) + " and " + std::to_string(reply));
    // A reply may have ended, and returned what it did not use, before it is looked at.
    for (int tries = 0; tries < 50; tries++) {
      std::vector<std::uint64_t> all = held(of);
      const std::vector<std::uint64_t> more = needed(prompt, reply, of);
      ASSERT_EQ(more.size(), 2U);
      for (std::size_t d = 0; d < all.size(); d++) all[d] += more[d];
      const auto observer = std::make_shared<bench::recorder>();
      const auto id = t.engine->generate(request(prompt, reply, of), observer);
      ASSERT_TRUE(id.has_value()) << to_string(id.error());
      const std::vector<engine::session_status> sessions = t.engine->status().sessions;
      const auto s = std::ranges::find(sessions, *id, &engine::session_status::id);
      ASSERT_NE(s, sessions.end());
      const bool in_time = s->state != engine::session_state::idle;
      if (in_time) {
        EXPECT_EQ(held(*s), all);
      }
      static_cast<void>(t.engine->stop(*id));
      observer->wait();
      if (in_time) return;
      if (of == 0) {
        ASSERT_TRUE(t.engine->close(*id).has_value());
      }
    }
    FAIL() << "each reply was over before it was looked at";
  };
  expect_held(10, 54, 0);     // just a page
  expect_held(10, 55, 0);     // a token more
  expect_held(150, 1000, 0);  // past what the context holds
  const engine::session_id kept = give(request(70, 10));
  expect_held(20, 20, kept);   // in pages that it has
  expect_held(10, 100, kept);  // in more of them
}

}  // namespace
}  // namespace terrane::daemon
