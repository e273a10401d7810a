// A device that is lost, at any call of its driver: every reply goes on with the same bits.
#include <future>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/bench_model.hpp"
#include "tests/engine/live/losable_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t many = 30;  // devices of an engine

engine::engine_options options(refuge_reports* to = nullptr) {
  engine::engine_options o;
  o.context_tokens = 512;
  // What is left on a lost device goes home to device 0, so that each test begins alike.
  o.choose_refuge = [](const engine::lost_placement& from) {
    return std::vector<std::uint32_t>(from.parts.size(), 0);
  };
  if (to != nullptr) o.on_refuge = [to](const engine::refuge_report& r) { to->add(r); };
  return o;
}

// Attention of every layer and the head, so that a token crosses often.
engine::move_request half_to(const engine::inference_engine& e, std::uint32_t device) {
  engine::move_request r;
  const auto& parts = e.loaded_model().parts();
  for (engine::part_index p = 0; p < parts.size(); p++)
    if (parts[p].kind == engine::part_kind::attention || parts[p].kind == engine::part_kind::head)
      r.parts.push_back({p, device});
  return r;
}

std::vector<std::uint64_t> undisturbed(engine::inference_engine& e,
                                       const engine::generate_request& r) {
  auto reply = std::make_shared<bench::recorder>();
  EXPECT_TRUE(e.generate(r, reply).has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
  return reply->hashes;
}

// A session that waits for its next turn.
engine::session_id kept(engine::inference_engine& e, std::size_t prompt) {
  engine::generate_request r = request(e, prompt, 4);
  r.keep = true;
  auto reply = std::make_shared<bench::recorder>();
  const auto id = e.generate(r, reply);
  EXPECT_TRUE(id.has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
  return id.value_or(0);
}

engine::generate_request next_turn(const engine::inference_engine& e, engine::session_id id,
                                   std::uint32_t tokens) {
  engine::generate_request r = request(e, 10, tokens);
  r.session = id;
  return r;
}

void spill(engine::inference_engine& e, engine::session_id id, std::uint32_t device) {
  engine::move_request away;
  away.spill = engine::spill_request{id, 0, device};
  EXPECT_EQ(bench::move_and_wait(e, std::move(away)).state, engine::move_state::committed);
}

// Nothing of the engine's is left on a device that is lost, or with sessions that have ended.
void expect_clean(const losable_engine& at, std::uint32_t lost, std::uint64_t weights) {
  at.engine->look_for_lost_devices();
  static_cast<void>(
      bench::move_and_wait(*at.engine, bench::everything_to(*at.engine, 0)));  // the mover is done
  const engine::engine_status s = at.engine->status();
  EXPECT_TRUE(s.sessions.empty());
  EXPECT_FALSE(s.stranded);
  EXPECT_TRUE(s.moves.empty());
  EXPECT_EQ(at.devices[lost]->used_bytes(), 0U);
  EXPECT_EQ(at.engine->devices()[0]->used_bytes(engine::memory_use::weights), weights);
}

struct way {
  std::string shape, quant;
  bool half = false;
};
class lost_device : public testing::TestWithParam<way> {
 protected:
  // Runs `f(device)` for n = 1, 2, ... on a device of its own each time, armed by `arm(n)`, until
  // its fault does not come any more. Returns how often it came.
  template <class F>
  std::size_t for_each_call(std::size_t most, F f) {
    const way w = GetParam();
    std::size_t n = 1;
    while (true) {
      losable_engine at = start_losable(w.shape, w.quant, many, options());
      const std::uint64_t weights =
          at.engine->devices()[0]->used_bytes(engine::memory_use::weights);
      for (std::uint32_t d = 1; d < many; d++) {
        if (!f(at, d, n)) return n - 1;
        if (HasFailure()) {
          ADD_FAILURE() << "at call " << n;
          return n;
        }
        if (at.devices[d]->lost()) expect_clean(at, d, weights);
        n += n < 40 ? 1 : 7;
        if (n > most) return n;
      }
    }
  }
  engine::move_request to(const engine::inference_engine& e, std::uint32_t device) const {
    return GetParam().half ? half_to(e, device) : bench::everything_to(e, device);
  }
};

TEST_P(lost_device, while_it_computes_is_replaced_and_no_bit_changes) {
  std::vector<std::uint64_t> expected;
  const std::size_t calls =
      for_each_call(400, [&](losable_engine& at, std::uint32_t d, std::size_t n) {
        engine::inference_engine& e = *at.engine;
        const engine::generate_request r = request(e, 130, 8);
        if (expected.empty()) expected = undisturbed(e, r);
        EXPECT_EQ(bench::move_and_wait(e, to(e, d)).state, engine::move_state::committed);
        at.devices[d]->lose_at(n);
        auto reply = std::make_shared<bench::recorder>();
        EXPECT_TRUE(e.generate(r, reply).has_value());
        const engine::reply_summary& end = reply->wait();
        EXPECT_EQ(end.reason, engine::stop_reason::max_tokens)
            << (end.failure ? to_string(*end.failure) : "");
        EXPECT_EQ(reply->hashes, expected);
        return at.devices[d]->disarm();
      });
  EXPECT_GT(calls, 30U);
}

TEST_P(lost_device, that_a_move_goes_to_leaves_the_reply_where_it_is) {
  std::vector<std::uint64_t> expected;
  const std::size_t calls =
      for_each_call(250, [&](losable_engine& at, std::uint32_t d, std::size_t n) {
        engine::inference_engine& e = *at.engine;
        const engine::generate_request r = request(e, 130, 30);
        if (expected.empty()) expected = undisturbed(e, r);
        auto reply = std::make_shared<bench::recorder>();
        EXPECT_TRUE(e.generate(r, reply).has_value());
        reply->wait_for(1);
        at.devices[d]->lose_at(n);
        const engine::move_status moved = bench::move_and_wait(e, to(e, d));
        EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
        EXPECT_EQ(reply->hashes, expected);
        const bool came = at.devices[d]->disarm();
        if (moved.state != engine::move_state::committed) {
          EXPECT_EQ(moved.failure->code, error_code::device_fault);
          EXPECT_TRUE(came);
        }
        return came;
      });
  EXPECT_GT(calls, 30U);
}

TEST_P(lost_device, that_a_move_comes_from_is_replaced) {
  std::vector<std::uint64_t> expected;
  const std::size_t calls =
      for_each_call(250, [&](losable_engine& at, std::uint32_t d, std::size_t n) {
        engine::inference_engine& e = *at.engine;
        const engine::generate_request r = request(e, 130, 30);
        if (expected.empty()) expected = undisturbed(e, r);
        EXPECT_EQ(bench::move_and_wait(e, to(e, d)).state, engine::move_state::committed);
        auto reply = std::make_shared<bench::recorder>();
        EXPECT_TRUE(e.generate(r, reply).has_value());
        reply->wait_for(1);
        at.devices[d]->lose_at(n);
        static_cast<void>(bench::move_and_wait(e, bench::everything_to(e, 0)));
        EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
        EXPECT_EQ(reply->hashes, expected);
        return at.devices[d]->disarm();
      });
  EXPECT_GT(calls, 10U);
}

TEST_P(lost_device, moves_given_up_at_any_call_leave_the_reply_whole) {
  std::vector<std::uint64_t> expected;
  const std::size_t calls =
      for_each_call(250, [&](losable_engine& at, std::uint32_t d, std::size_t n) {
        engine::inference_engine& e = *at.engine;
        const engine::generate_request r = request(e, 130, 20);
        if (expected.empty()) expected = undisturbed(e, r);
        auto reply = std::make_shared<bench::recorder>();
        EXPECT_TRUE(e.generate(r, reply).has_value());
        reply->wait_for(1);
        // Numbers of moves count from 1; here and in expect_clean() each device has two.
        std::atomic<engine::move_id> id{0};
        at.devices[d]->call_at(n, [&] { static_cast<void>(e.cancel_move(id)); });
        std::promise<engine::move_status> ended;
        const auto begun = e.move(to(e, d), [&](const engine::move_status& s) {
          id = s.id;
          if (s.state != engine::move_state::waiting && s.state != engine::move_state::preparing)
            ended.set_value(s);
        });
        EXPECT_TRUE(begun.has_value());
        const engine::move_status moved = ended.get_future().get();
        const bool came = at.devices[d]->disarm();
        EXPECT_TRUE(moved.state == engine::move_state::cancelled ||
                    moved.state == engine::move_state::committed);
        EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
        EXPECT_EQ(reply->hashes, expected);
        if (moved.state == engine::move_state::cancelled) {
          EXPECT_EQ(at.devices[d]->used_bytes(engine::memory_use::weights), 0U);
        }
        static_cast<void>(bench::move_and_wait(e, bench::everything_to(e, 0)));
        return came;
      });
  EXPECT_GT(calls, 30U);
}

TEST_P(lost_device, allocations_that_fail_on_the_target_leave_the_reply_whole) {
  std::vector<std::uint64_t> expected;
  const std::size_t calls =
      for_each_call(250, [&](losable_engine& at, std::uint32_t d, std::size_t n) {
        engine::inference_engine& e = *at.engine;
        const engine::generate_request r = request(e, 130, 20);
        if (expected.empty()) expected = undisturbed(e, r);
        auto reply = std::make_shared<bench::recorder>();
        EXPECT_TRUE(e.generate(r, reply).has_value());
        reply->wait_for(1);
        at.devices[d]->find_no_room_at(n);
        const engine::move_status moved = bench::move_and_wait(e, to(e, d));
        const bool came = at.devices[d]->disarm();
        EXPECT_EQ(moved.state, came ? engine::move_state::failed : engine::move_state::committed);
        if (came) {
          EXPECT_EQ(moved.failure->code, error_code::no_room);
        }
        EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
        EXPECT_EQ(reply->hashes, expected);
        static_cast<void>(bench::move_and_wait(e, bench::everything_to(e, 0)));
        return came;
      });
  EXPECT_GT(calls, 4U);
}

INSTANTIATE_TEST_SUITE_P(losses, lost_device,
                         testing::Values(way{"tiny", "Q4_1", false}, way{"tiny", "Q4_1", true},
                                         way{"tiny-gemma3", "Q8_0", true}),
                         [](const auto& of) {
                           return std::string(of.param.shape == "tiny" ? "tiny" : "gemma3") +
                                  (of.param.half ? "_in_two_places" : "_as_a_whole");
                         });

TEST(losses, of_a_device_beside_others_end_no_session_and_are_told) {
  refuge_reports told;
  engine::engine_options o = options(&told);
  o.choose_refuge = {};  // the nearest with room
  losable_engine at = start_losable("tiny", "Q4_1", 3, o);
  engine::inference_engine& e = *at.engine;
  engine::generate_request r = request(e, 130, 6);
  const std::vector<std::uint64_t> expected = undisturbed(e, r);
  ASSERT_EQ(bench::move_and_wait(e, half_to(e, 1)).state, engine::move_state::committed);
  // One session waits for its next turn while the device goes.
  r.keep = true;
  auto first = std::make_shared<bench::recorder>();
  const auto id = e.generate(r, first);
  ASSERT_TRUE(id.has_value());
  first->wait();
  at.devices[1]->lose_at(1);
  EXPECT_FALSE(e.status().stranded);  // nobody has noticed
  auto second = std::make_shared<bench::recorder>();
  const auto served = e.generate(request(e, 130, 6), second);
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  second->wait();
  EXPECT_EQ(second->hashes, expected);
  const engine::refuge_report report = told.wait_for(1);
  EXPECT_THAT(report.lost, testing::ElementsAre(1U));
  EXPECT_FALSE(report.failure.has_value());
  EXPECT_EQ(report.sessions_ended, 0U);
  EXPECT_EQ(report.sessions_rebuilt, 1U);
  for (const engine::part_status& p : e.status().parts) {
    EXPECT_EQ(p.device, 0U);  // where the parts beside them are
    if (p.by == "engine") {
      EXPECT_THAT(p.reason, HasSubstr("losable:1"));
    }
  }
  // The kept one goes on as if nothing had been.
  engine::generate_request next = request(e, 10, 5);
  next.session = *id;
  auto third = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(next, third).has_value());
  third->wait();
  auto all_at_once = std::make_shared<bench::recorder>();
  engine::generate_request whole = request(e, 130, 5);
  whole.prompt.insert(whole.prompt.end(), first->ids.begin(), first->ids.end());
  whole.prompt.insert(whole.prompt.end(), next.prompt.begin(), next.prompt.end());
  ASSERT_TRUE(e.generate(whole, all_at_once).has_value());
  all_at_once->wait();
  EXPECT_EQ(third->hashes, all_at_once->hashes);
}

TEST(losses, of_where_pages_were_spilled_to_rebuild_them) {
  losable_engine at = start_losable("tiny", "Q4_1", 2, options());
  engine::inference_engine& e = *at.engine;
  const std::vector<std::uint64_t> expected = undisturbed(e, next_turn(e, kept(e, 200), 20));
  const engine::session_id id = kept(e, 200);
  spill(e, id, 1);
  auto reply = std::make_shared<bench::recorder>();
  reply->after_token = [&](std::size_t n) {
    if (n == 2) at.devices[1]->lose_at(5);
  };
  ASSERT_TRUE(e.generate(next_turn(e, id, 20), reply).has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
  EXPECT_EQ(reply->hashes, expected);
  EXPECT_TRUE(at.devices[1]->disarm());
}

TEST(losses, of_what_only_an_idle_session_needs_disturb_no_reply) {
  losable_engine at = start_losable("tiny", "Q4_1", 2, options());
  engine::inference_engine& e = *at.engine;
  const std::vector<std::uint64_t> expected = undisturbed(e, request(e, 130, 20)),
                                   turn = undisturbed(e, next_turn(e, kept(e, 200), 20));
  const engine::session_id idle = kept(e, 200);
  spill(e, idle, 1);
  auto reply = std::make_shared<bench::recorder>();
  reply->after_token = [&](std::size_t n) {
    if (n == 2) at.devices[1]->lose_at(1);
  };
  ASSERT_TRUE(e.generate(request(e, 130, 20), reply).has_value());
  const engine::reply_summary& end = reply->wait();
  EXPECT_EQ(end.reason, engine::stop_reason::max_tokens)
      << (end.failure ? to_string(*end.failure) : "");
  EXPECT_EQ(reply->hashes, expected);
  EXPECT_TRUE(at.devices[1]->disarm());
  EXPECT_FALSE(e.status().stranded);
  EXPECT_EQ(undisturbed(e, next_turn(e, idle, 20)), turn);
}

// Its reply is stopped before there is a place for what it has lost: nothing waits for one then.
TEST(losses, end_with_the_reply_that_they_held_up) {
  refuge_reports told;
  engine::engine_options o = options(&told);
  engine::inference_engine* stops = nullptr;
  engine::session_id id = 0;
  o.choose_refuge = [&](const engine::lost_placement& from) {
    EXPECT_TRUE(stops->stop(id).has_value());
    return std::vector<std::uint32_t>(from.parts.size(), 0);
  };
  losable_engine at = start_losable("tiny", "Q4_1", 2, o);
  engine::inference_engine& e = *(stops = at.engine.get());
  id = kept(e, 200);
  spill(e, id, 1);
  engine::generate_request r = next_turn(e, id, 20);
  r.keep = true;
  auto reply = std::make_shared<bench::recorder>();
  reply->after_token = [&](std::size_t n) {
    if (n == 2) at.devices[1]->lose_at(1);
  };
  ASSERT_TRUE(e.generate(r, reply).has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::stopped);
  EXPECT_FALSE(told.wait_for(1).failure.has_value());
  ASSERT_FALSE(e.status().stranded);
  EXPECT_EQ(undisturbed(e, next_turn(e, id, 5)).size(), 5U);
}

TEST(losses, end_only_the_session_whose_pages_have_no_room) {
  refuge_reports told;
  losable_engine at = start_losable("tiny", "Q4_1", 2, options(&told));
  engine::inference_engine& e = *at.engine;
  const std::vector<std::uint64_t> expected = undisturbed(e, request(e, 130, 380));
  const engine::session_id spilled = kept(e, 200);
  spill(e, spilled, 1);
  // Of the 16 pages that a layer's arena has, one is the session's still, and these have the rest.
  static_cast<void>(kept(e, 400));
  auto other = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(request(e, 130, 380), other).has_value());
  e.devices()[0]->set_budget_bytes(e.devices()[0]->used_bytes());
  auto reply = std::make_shared<bench::recorder>();
  reply->after_token = [&](std::size_t n) {
    if (n == 2) at.devices[1]->lose_at(1);
  };
  ASSERT_TRUE(e.generate(next_turn(e, spilled, 20), reply).has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::failed);
  EXPECT_EQ(other->wait().reason, engine::stop_reason::max_tokens);
  EXPECT_EQ(other->hashes, expected);
  const engine::refuge_report report = told.wait_for(1);
  EXPECT_FALSE(report.failure.has_value());
  EXPECT_EQ(report.sessions_ended, 1U);
  EXPECT_FALSE(e.status().stranded);
}

TEST(losses, of_a_device_that_nothing_needs_refuse_no_request) {
  losable_engine at = start_losable("tiny", "Q4_1", 2, options());
  engine::inference_engine& e = *at.engine;
  const std::vector<std::uint64_t> expected = undisturbed(e, request(e, 40, 6));
  // Its workspace stays, and with it the tables that a new session's pages are written to.
  for (std::uint32_t d : {1U, 0U})
    ASSERT_EQ(bench::move_and_wait(e, bench::everything_to(e, d)).state,
              engine::move_state::committed);
  at.devices[1]->lose_at(1);
  auto reply = std::make_shared<bench::recorder>();
  const auto served = e.generate(request(e, 40, 6), reply);
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
  EXPECT_EQ(reply->hashes, expected);
  EXPECT_TRUE(at.devices[1]->disarm());
}

// Logits of a prompt are told once for each position, also where they were computed twice.
class positions final : public engine::reply_observer {
 public:
  void on_token(const engine::token_event&) override {}
  void on_logits(std::uint32_t position, std::span<const float>) override {
    told.push_back(position);
  }
  void on_end(const engine::reply_summary& s) override { ended.set_value(s.reason); }
  std::vector<std::uint32_t> told;
  std::promise<engine::stop_reason> ended;
};

TEST(losses, tell_no_logits_twice) {
  losable_engine at = start_losable("tiny", "Q4_1", 12, options());
  for (std::uint32_t d = 1; d < 12; d++) {
    ASSERT_EQ(bench::move_and_wait(*at.engine, bench::everything_to(*at.engine, d)).state,
              engine::move_state::committed);
    at.devices[d]->lose_at(d * 3);
    engine::generate_request r = request(*at.engine, 70, 0);
    r.every_logit = true;
    auto reply = std::make_shared<positions>();
    ASSERT_TRUE(at.engine->generate(r, reply).has_value());
    EXPECT_EQ(reply->ended.get_future().get(), engine::stop_reason::max_tokens);
    std::vector<std::uint32_t> each(70);
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(reply->told, each);
    EXPECT_TRUE(at.devices[d]->disarm());
  }
}

// Nor those of what a session held before.
TEST(losses, tell_only_the_logits_of_the_turn) {
  losable_engine at = start_losable("tiny", "Q4_1", 2, options());
  const engine::session_id id = kept(*at.engine, 70);
  ASSERT_EQ(bench::move_and_wait(*at.engine, bench::everything_to(*at.engine, 1)).state,
            engine::move_state::committed);
  at.devices[1]->lose_at(6);
  engine::generate_request r = next_turn(*at.engine, id, 0);
  r.every_logit = true;
  auto reply = std::make_shared<positions>();
  ASSERT_TRUE(at.engine->generate(r, reply).has_value());
  EXPECT_EQ(reply->ended.get_future().get(), engine::stop_reason::max_tokens);
  std::vector<std::uint32_t> each(11);
  std::iota(each.begin(), each.end(), 73);  // the last token drawn, and the prompt
  EXPECT_EQ(reply->told, each);
  EXPECT_TRUE(at.devices[1]->disarm());
}

TEST(losses, that_nothing_can_make_good_end_sessions_with_a_reason_until_there_is_room) {
  refuge_reports told;
  losable_engine at = start_losable("tiny", "Q4_1", 2, options(&told));
  engine::inference_engine& e = *at.engine;
  const std::vector<std::uint64_t> expected = undisturbed(e, request(e, 40, 6));
  ASSERT_EQ(bench::move_and_wait(e, bench::everything_to(e, 1)).state,
            engine::move_state::committed);
  e.devices()[0]->set_budget_bytes(e.devices()[0]->used_bytes() + 1000);
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(request(e, 40, 300), reply).has_value());
  reply->wait_for(2);
  at.devices[1]->lose_at(1);
  const engine::reply_summary& end = reply->wait();
  EXPECT_EQ(end.reason, engine::stop_reason::failed);
  ASSERT_TRUE(end.failure.has_value());
  EXPECT_EQ(end.failure->code, error_code::no_room);
  EXPECT_THAT(to_string(*end.failure), HasSubstr("losable:1"));
  const engine::refuge_report report = told.wait_for(1);
  EXPECT_EQ(report.sessions_ended, 1U);
  EXPECT_TRUE(report.failure.has_value());
  const engine::engine_status s = e.status();
  EXPECT_TRUE(s.stranded);
  ASSERT_TRUE(s.unplaced.has_value());
  EXPECT_THAT(s.unplaced->message, HasSubstr("fits on no other device"));
  auto refused = e.generate(request(e, 40, 6), std::make_shared<bench::recorder>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::no_room);
  // Room comes back, and somebody looks.
  e.devices()[0]->set_budget_bytes(0);
  e.look_for_lost_devices();
  const engine::refuge_report again = told.wait_for(2);
  EXPECT_FALSE(again.failure.has_value()) << to_string(*again.failure);
  EXPECT_EQ(undisturbed(e, request(e, 40, 6)), expected);
}

// A session is in the way of the weights: it ends, and others are served.
TEST(losses, end_sessions_where_only_the_weights_fit) {
  refuge_reports told;
  losable_engine at = start_losable("tiny", "Q4_1", 2, options(&told));
  engine::inference_engine& e = *at.engine;
  const std::uint64_t alone = e.devices()[0]->used_bytes();  // weights and workspace
  ASSERT_EQ(bench::move_and_wait(e, bench::everything_to(e, 1)).state,
            engine::move_state::committed);
  e.devices()[0]->set_budget_bytes(alone + 1000);
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(request(e, 40, 300), reply).has_value());
  reply->wait_for(2);
  at.devices[1]->lose_at(1);
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::failed);
  const engine::refuge_report report = told.wait_for(1);
  EXPECT_FALSE(report.failure.has_value());
  EXPECT_EQ(report.sessions_ended, 1U);
  EXPECT_FALSE(e.status().stranded);
  e.devices()[0]->set_budget_bytes(0);
  EXPECT_TRUE(e.generate(request(e, 40, 6), std::make_shared<bench::recorder>()).has_value());
}

}  // namespace
}  // namespace terrane::test
