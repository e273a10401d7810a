// How replies end, what they cost, and what they leave behind.
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "engine/session/release_thread.hpp"
#include "engine/session/session.hpp"
#include "tests/engine/live/tiny_model.hpp"
#include "tests/engine/sampling/allocations.hpp"

namespace terrane::test {
namespace {

// Counts allocations of the process between the tokens of a reply.
class counting final : public engine::reply_observer {
 public:
  void on_token(const engine::token_event&) override {
    const std::size_t now = allocations();
    if (tokens_++ > 0) most = std::max(most, now - before_);
    before_ = allocations();
  }
  void on_end(const engine::reply_summary&) override { done.wait_ended(); }

  struct gate {
    std::mutex guard;
    std::condition_variable changed;
    bool ended = false;
    void wait_ended() {
      std::lock_guard lock(guard);
      ended = true;
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(guard);
      changed.wait(lock, [this] { return ended; });
    }
  } done;
  std::size_t most = 0;

 private:
  std::size_t tokens_ = 0, before_ = 0;
};

TEST(step_loop, allocates_nothing_per_token) {
  auto e = tiny_engine();
  auto first = std::make_shared<counting>();
  // Once to record the lists for every size of step, then counted. 70 tokens cross a page's end.
  ASSERT_TRUE(e->generate(request(*e, 20, 100), first).has_value());
  first->done.wait();
  auto second = std::make_shared<counting>();
  ASSERT_TRUE(e->generate(request(*e, 20, 100), second).has_value());
  second->done.wait();
  EXPECT_EQ(second->most, 0U);
}

TEST(replies, give_back_their_pages) {
  auto e = tiny_engine();
  auto reply = std::make_shared<bench::recorder>();
  result<engine::session_id> id = e->generate(request(*e, 50, 400), reply);
  ASSERT_TRUE(id.has_value());
  reply->wait_for(3);
  EXPECT_GT(e->devices()[0]->used_bytes(engine::memory_use::kv), 0U);
  ASSERT_TRUE(e->close(*id, "user 7").has_value());
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::closed);
  EXPECT_EQ(reply->wait().closed_by, "user 7");
  EXPECT_TRUE(e->status().sessions.empty());
  EXPECT_EQ(e->devices()[0]->used_bytes(engine::memory_use::kv), 0U);
}

TEST(replies, end_all_when_the_engine_does) {
  auto e = tiny_engine();
  std::vector<std::shared_ptr<bench::recorder>> replies;
  for (std::uint32_t i = 0; i < e->options().sessions; i++) {
    replies.push_back(std::make_shared<bench::recorder>());
    ASSERT_TRUE(e->generate(request(*e, 3, 400), replies.back()).has_value());
  }
  e.reset();
  for (const auto& reply : replies) EXPECT_TRUE(reply->ended());
}

// The last token of a reply whose pages were away ends the plan that computed it.
TEST(replies, end_while_their_pages_are_away) {
  auto e = tiny_engine();
  const auto reply = std::make_shared<bench::recorder>();
  const result<engine::session_id> id = e->generate(request(*e, 200, 120), reply);
  ASSERT_TRUE(id.has_value());
  reply->wait_for(2);
  engine::move_request away;
  away.spill = engine::spill_request{*id, 0, 1};
  const engine::move_status moved = bench::move_and_wait(*e, std::move(away));
  ASSERT_EQ(moved.state, engine::move_state::committed);
  EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
  const auto next = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(request(*e, 10, 5), next).has_value());
  EXPECT_EQ(next->wait().reason, engine::stop_reason::max_tokens);
}

// What is reserved, written and away is told apart, and a spill takes what is full, whence it is
// told to.
TEST(replies, tell_what_of_their_pages_is_full) {
  auto e = tiny_engine();
  engine::generate_request keeps = request(*e, 200, 250);
  keeps.keep = true;
  const auto reply = std::make_shared<bench::recorder>();
  const result<engine::session_id> id = e->generate(std::move(keeps), reply);
  ASSERT_TRUE(id.has_value());
  reply->wait_for(2);
  engine::kv_share here = e->status().sessions.at(0).kv.at(0);
  const std::uint64_t page = here.bytes / 8;  // 450 tokens
  EXPECT_GE(here.bytes - here.open_bytes, 3 * page);
  EXPECT_GT(here.empty_bytes, 0U);
  EXPECT_GT(here.open_bytes, here.empty_bytes);
  EXPECT_EQ(here.away_bytes, 0U);
  ASSERT_TRUE(e->stop(*id).has_value());
  reply->wait();
  here = e->status().sessions.at(0).kv.at(0);
  EXPECT_EQ(here.empty_bytes, 0U);  // they have returned
  const std::uint64_t full = here.bytes - here.open_bytes;
  const auto spill = [&](std::optional<std::uint32_t> from, std::uint32_t to) {
    engine::move_request away;
    away.spill = engine::spill_request{*id, 0, to, from};
    return bench::move_and_wait(*e, std::move(away));
  };
  EXPECT_TRUE(spill(1, 0).nothing_moved);
  EXPECT_EQ(spill({}, 1).bytes_done, full);
  const engine::engine_status now = e->status();
  EXPECT_EQ(now.sessions.at(0).kv.at(1).bytes, full);
  EXPECT_EQ(now.sessions.at(0).kv.at(1).away_bytes, full);
  EXPECT_EQ(now.sessions.at(0).kv.at(0).elsewhere_bytes, full);
  EXPECT_EQ(now.sessions.at(0).kv.at(1).elsewhere_bytes, 0U);
  EXPECT_TRUE(spill({}, 0).nothing_moved);  // nothing that is full lies beside its parts
  EXPECT_EQ(spill(1, 0).bytes_done, full);
  EXPECT_EQ(e->status().sessions.at(0).kv.at(1).bytes, 0U);
}

// Pages are freed beside the step loop; a request that needs them waits for that instead of
// failing.
TEST(replies, find_the_room_that_is_coming_back) {
  auto e = tiny_engine("tiny", "Q4_1", 2048);
  engine::device& cpu = *e->devices()[0];
  for (int turn = 0; turn < 20; turn++) {
    auto reply = std::make_shared<bench::recorder>();
    // Whole arenas, so that none has pages to spare for the next.
    result<engine::session_id> id = e->generate(request(*e, 50, 1990), reply);
    ASSERT_TRUE(id.has_value()) << "turn " << turn << ": " << to_string(id.error());
    if (turn == 0) cpu.set_budget_bytes(cpu.used_bytes());
    ASSERT_TRUE(e->stop(*id).has_value());
    reply->wait();
  }
}

TEST(release_thread, frees_on_its_own_thread_and_lets_only_those_wait_who_ask) {
  std::promise<void> may_go;
  std::promise<std::thread::id> gone;
  struct slow {
    std::shared_future<void> may_go;
    std::promise<std::thread::id>& gone;
    ~slow() {
      may_go.wait();
      gone.set_value(std::this_thread::get_id());
    }
  };
  engine::release_thread releases;
  EXPECT_FALSE(releases.finish());
  releases.give(std::shared_ptr<slow>(new slow{may_go.get_future().share(), gone}));
  may_go.set_value();  // had give() waited, this line would never be reached
  EXPECT_NE(gone.get_future().get(), std::this_thread::get_id());
  releases.finish();
  EXPECT_FALSE(releases.finish());
}

// What is given while somebody waits is not waited for: where sessions come and go it has no end.
TEST(release_thread, waits_for_no_more_than_was_given) {
  struct chain {
    engine::release_thread& to;
    std::atomic<bool>& over;
    ~chain() {
      if (!over) to.give(std::shared_ptr<chain>(new chain{to, over}));
    }
  };
  std::atomic<bool> over{false};
  engine::release_thread releases;
  releases.give(std::shared_ptr<chain>(new chain{releases, over}));
  EXPECT_TRUE(releases.finish());
  over = true;
}

TEST(replies, end_at_the_context) {
  auto e = tiny_engine("tiny", "Q4_1", 64);
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(request(*e, 50, 1000), reply).has_value());
  const engine::reply_summary& end = reply->wait();
  EXPECT_EQ(end.reason, engine::stop_reason::context_full);
  EXPECT_EQ(end.prompt_tokens + end.generated_tokens, 65U);  // the last one needs no place
}

TEST(replies, end_at_a_stop_token) {
  auto e = tiny_engine();
  auto free = std::make_shared<bench::recorder>();
  engine::generate_request r = request(*e, 20, 10);
  r.sampling.temperature = 0;
  ASSERT_TRUE(e->generate(r, free).has_value());
  free->wait();
  r.stop_tokens = {free->ids[3]};
  auto stopped = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(r, stopped).has_value());
  EXPECT_EQ(stopped->wait().reason, engine::stop_reason::end_of_text);
  EXPECT_LE(stopped->ids.size(), 4U);
}

TEST(replies, their_sessions_are_told_as_they_come_and_go) {
  auto model = engine::model::open(tiny_model("tiny", "Q4_1"));
  ASSERT_TRUE(model.has_value()) << to_string(model.error());
  std::vector<std::unique_ptr<engine::device>> devices;
  devices.push_back(std::move(*engine::open_device("cpu", {})));
  std::vector<std::string> told;  // on the loop's thread, which waits while a call is answered
  engine::engine_options options;
  options.context_tokens = 128;
  options.on_session = [&](engine::session_change change, engine::session_id id,
                           std::int64_t owner) {
    told.push_back((change == engine::session_change::opened ? "+" : "-") + std::to_string(id) +
                   " of " + std::to_string(owner));
  };
  auto e = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  const auto reply = [&](engine::session_id session, bool keep) {
    engine::generate_request r = request(**e, 5, 3);
    r.session = session;
    r.keep = keep;
    r.owner = 1000;
    auto observer = std::make_shared<bench::recorder>();
    EXPECT_TRUE((*e)->generate(std::move(r), observer).has_value());
    observer->wait();
    static_cast<void>((*e)->status());  // the step is over
  };
  reply(0, false);
  EXPECT_EQ(told, (std::vector<std::string>{"+1 of 1000", "-1 of 1000"}));
  told.clear();
  reply(0, true);
  reply(2, true);
  EXPECT_EQ(told, (std::vector<std::string>{"+2 of 1000"}));
  ASSERT_TRUE((*e)->close(2).has_value());
  EXPECT_EQ(told, (std::vector<std::string>{"+2 of 1000", "-2 of 1000"}));
  told.clear();
  // One that is refused was never there.
  EXPECT_FALSE((*e)->generate(request(**e, 500, 3), std::make_shared<bench::recorder>()));
  EXPECT_TRUE(told.empty());
}

TEST(replies, name_the_part_whose_numbers_are_not_finite) {
  // A scale of the second layer's down projection becomes infinite: f16 0x7c00, in each row's first
  // block.
  const std::string file = tiny_model("tiny", "Q4_1");
  const std::string broken = with_bytes(file, "blk.1.ffn_down.weight", 0, {0x00, 0x7c});
  bench::model_choice choice;
  choice.path = broken;
  choice.devices = {"cpu"};
  choice.context_tokens = 128;
  choice.check_numbers = false;
  auto e = bench::open_model(choice);
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE((*e)->generate(request(**e, 5, 5), reply).has_value());
  const engine::reply_summary& end = reply->wait();
  EXPECT_EQ(end.reason, engine::stop_reason::failed);
  ASSERT_TRUE(end.failure.has_value());
  EXPECT_EQ(end.failure->code, error_code::not_finite);
  EXPECT_EQ(end.failure->where, "layer.1.ffn");
  EXPECT_EQ(end.generated_tokens, 0U);
}

TEST(stop_texts, hold_back_what_may_become_one) {
  engine::stop_texts s({"\nUser:", "END"});
  EXPECT_EQ(s.push("Hello"), "Hello");
  EXPECT_EQ(s.push(" E"), " ");
  EXPECT_EQ(s.push("N"), "");
  EXPECT_EQ(s.push("T\nUs"), "ENT");
  EXPECT_EQ(s.push("er: x"), "");
  EXPECT_TRUE(s.found());
}

TEST(stop_texts, give_up_what_they_held_at_the_end) {
  engine::stop_texts s({"END"});
  EXPECT_EQ(s.push("abEN"), "ab");
  EXPECT_EQ(s.finish(), "EN");
  EXPECT_FALSE(s.found());
}

}  // namespace
}  // namespace terrane::test
