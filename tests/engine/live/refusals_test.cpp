// What the engine refuses, with the numbers, and that nothing is lost by it.
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using testing::HasSubstr;

TEST(refusals, a_prompt_beyond_the_context_with_both_counts) {
  auto e = tiny_engine("tiny", "Q4_1", 64);
  auto r = e->generate(request(*e, 70, 5), std::make_shared<bench::recorder>());
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::too_long);
  EXPECT_EQ(r.error().needed, 70U);
  EXPECT_EQ(r.error().available, 64U);
}

TEST(refusals, a_start_that_is_given_up_ends_before_the_weights_are_there) {
  auto model = engine::model::open(tiny_model("tiny", "Q4_1"));
  ASSERT_TRUE(model.has_value()) << to_string(model.error());
  auto cpu = engine::open_device("cpu", {});
  ASSERT_TRUE(cpu.has_value()) << to_string(cpu.error());
  std::vector<std::unique_ptr<engine::device>> devices;
  devices.push_back(std::move(*cpu));
  std::uint64_t reached = 0, all = 0;
  auto e = engine::inference_engine::start(std::move(*model), std::move(devices), {},
                                           [&](std::uint64_t done, std::uint64_t total) {
                                             EXPECT_EQ(reached, 0U) << "it goes on";
                                             reached = done;
                                             all = total;
                                             return false;
                                           });
  ASSERT_FALSE(e.has_value());
  EXPECT_EQ(e.error().code, error_code::cancelled);
  EXPECT_GT(reached, 0U);
  EXPECT_LT(reached, all);
}

TEST(refusals, a_move_of_what_is_there_changes_nothing) {
  auto e = tiny_engine();
  engine::generate_request r = request(*e, 10, 3);
  r.keep = true;
  auto reply = std::make_shared<bench::recorder>();
  const auto session = e->generate(r, reply);
  ASSERT_TRUE(session.has_value());
  reply->wait();
  engine::move_request home;
  home.spill = engine::spill_request{*session, 0, std::nullopt};
  for (engine::move_request& nothing : std::vector{bench::everything_to(*e, 0), home}) {
    const engine::move_status moved = bench::move_and_wait(*e, std::move(nothing));
    EXPECT_EQ(moved.state, engine::move_state::committed);
    EXPECT_TRUE(moved.nothing_moved);
    EXPECT_EQ(moved.revision, 1U);
    EXPECT_EQ(e->revision(), 1U);
    EXPECT_FALSE(e->status().parts[0].moved_at.has_value());
  }
  engine::move_request claim = bench::everything_to(*e, 0);
  claim.by = "user 7";
  EXPECT_TRUE(bench::move_and_wait(*e, claim).nothing_moved);
  EXPECT_EQ(e->status().parts[0].by, "start");
  claim.claims = true;
  EXPECT_TRUE(bench::move_and_wait(*e, claim).nothing_moved);
  EXPECT_EQ(e->status().parts[0].by, "user 7");
  EXPECT_EQ(e->revision(), 1U);
  EXPECT_FALSE(bench::move_and_wait(*e, bench::everything_to(*e, 1)).nothing_moved);
  EXPECT_EQ(e->revision(), 2U);
  EXPECT_TRUE(e->status().parts[0].moved_at.has_value());
}

// Of a move that finds one part where it is to be and no room for another.
TEST(refusals, a_move_that_fails_owns_nothing) {
  auto e = tiny_engine();
  engine::move_request mixed;
  mixed.parts = {{0, 0}, {1, 1}};
  mixed.by = "user 7";
  mixed.claims = true;
  e->devices()[1]->set_budget_bytes(1);
  const engine::move_status moved = bench::move_and_wait(*e, mixed);
  EXPECT_EQ(moved.state, engine::move_state::failed);
  EXPECT_EQ(e->status().parts[0].by, "start");
  e->devices()[1]->set_budget_bytes(0);
  EXPECT_EQ(bench::move_and_wait(*e, mixed).state, engine::move_state::committed);
  EXPECT_EQ(e->status().parts[0].by, "user 7");
  EXPECT_EQ(e->status().parts[1].by, "user 7");
}

TEST(refusals, a_token_outside_the_vocabulary) {
  auto e = tiny_engine();
  engine::generate_request r = request(*e, 3, 5);
  r.prompt[1] = 1U << 30;
  EXPECT_FALSE(e->generate(r, std::make_shared<bench::recorder>()).has_value());
}

TEST(refusals, more_sessions_than_there_are) {
  auto e = tiny_engine();
  std::vector<std::shared_ptr<bench::recorder>> replies;
  for (std::uint32_t i = 0; i < e->options().sessions; i++) {
    engine::generate_request r = request(*e, 3, 3);
    r.keep = true;
    replies.push_back(std::make_shared<bench::recorder>());
    ASSERT_TRUE(e->generate(r, replies.back()).has_value());
  }
  auto r = e->generate(request(*e, 3, 3), std::make_shared<bench::recorder>());
  ASSERT_FALSE(r.has_value());
  EXPECT_THAT(r.error().message, HasSubstr("sessions are in use"));
}

TEST(refusals, kv_that_does_not_fit_with_the_numbers) {
  auto e = tiny_engine();
  e->devices()[0]->set_budget_bytes(e->devices()[0]->used_bytes() + 1000);
  auto r = e->generate(request(*e, 10, 10), std::make_shared<bench::recorder>());
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::no_room);
  EXPECT_EQ(r.error().available, 1000U);
  EXPECT_TRUE(e->status().sessions.empty());
  e->devices()[0]->set_budget_bytes(0);
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(request(*e, 10, 10), reply).has_value());
  EXPECT_FALSE(reply->wait().failure.has_value());
}

TEST(refusals, a_move_without_room_leaves_everything_where_it_was) {
  auto e = tiny_engine();
  e->devices()[1]->set_budget_bytes(1U << 20);
  auto reply = std::make_shared<bench::recorder>();
  engine::generate_request r = request(*e, 10, 200);
  r.hash_logits = true;
  ASSERT_TRUE(e->generate(r, reply).has_value());
  engine::move_status s = bench::move_and_wait(*e, bench::everything_to(*e, 1));
  EXPECT_EQ(s.state, engine::move_state::failed);
  ASSERT_TRUE(s.failure.has_value());
  EXPECT_EQ(s.failure->code, error_code::no_room);
  EXPECT_GT(s.failure->needed, s.failure->available);
  EXPECT_FALSE(reply->wait().failure.has_value());
  for (const engine::part_status& p : e->status().parts) EXPECT_EQ(p.device, 0U);
  EXPECT_EQ(e->devices()[1]->used_bytes(engine::memory_use::weights), 0U);
}

TEST(refusals, unknown_parts_devices_sessions_and_revisions) {
  auto e = tiny_engine();
  engine::move_request r;
  EXPECT_FALSE(e->move(r).has_value());
  r.parts = {{9999, 0}};
  EXPECT_EQ(e->move(r).error().code, error_code::not_found);
  r.parts = {{0, 9}};
  EXPECT_EQ(e->move(r).error().code, error_code::not_found);
  r.parts.clear();
  for (const auto& [from, to] : {std::pair{0U, 9U}, {9U, 1U}}) {
    r.spill = engine::spill_request{1, 0, to, from};
    ASSERT_FALSE(e->move(r).has_value());
    EXPECT_EQ(e->move(r).error().code, error_code::not_found);
  }
  r.spill.reset();
  r.parts = {{0, 1}};
  r.revision = 77;
  EXPECT_EQ(e->move(r).error().code, error_code::conflict);
  EXPECT_EQ(e->close(5).error().code, error_code::not_found);
  EXPECT_EQ(e->stop(5).error().code, error_code::not_found);
  EXPECT_EQ(e->cancel_move(5).error().code, error_code::not_found);
}

// An infinite or missing number in the file, and what the refusal says of it.
void expect_refused(const std::string& quant, const std::string& tensor, std::size_t offset,
                    const std::vector<unsigned char>& bytes, const std::string& says) {
  bench::model_choice choice;
  choice.path = with_bytes(tiny_model("tiny", quant), tensor, offset, bytes);
  choice.devices = {"cpu"};
  choice.context_tokens = 128;
  auto e = bench::open_model(choice);
  ASSERT_FALSE(e.has_value());
  EXPECT_EQ(e.error().code, error_code::not_finite);
  EXPECT_THAT(e.error().message, HasSubstr(says));
  EXPECT_THAT(e.error().where, HasSubstr("tensor " + tensor));
}

TEST(refusals, scales_that_are_not_finite_with_tensor_block_and_value) {
  // Rows of 18 blocks: row 40 begins at block 720.
  const std::string down = "blk.1.ffn_down.weight", gate = "blk.0.ffn_gate.weight";
  expect_refused("Q4_1", gate, (720 + 3) * 20 + 2, {0x00, 0xfc},
                 "row 40, block 3 of 32 weights: number 1 is infinite (stored as 0xfc00)");
  expect_refused("Q8_0", down, 0, {0x01, 0x7e}, "row 0, block 0 of 32 weights: number 0 is not a");
  expect_refused("MXFP4", gate, (720 + 17) * 17, {0xff},
                 "row 40, block 17 of 32 weights: number 0 is not a number (stored as 0xff)");
  expect_refused("F32", "output_norm.weight", 4 * 33, {0x00, 0x00, 0x80, 0x7f},
                 "row 0, block 1 of 32 weights: number 1 is infinite (stored as 0x7f800000)");
}

TEST(refusals, a_shape_that_the_architecture_does_not_expect_with_both_shapes) {
  // The output projection of 576 by 576 becomes one of 576 by 544 in the file's header.
  const std::string file = tiny_model("tiny", "Q4_1");
  const std::string broken = with_shape(file, "blk.0.attn_output.weight", {576, 544});
  auto m = engine::model::open(broken);
  ASSERT_FALSE(m.has_value());
  EXPECT_EQ(m.error().code, error_code::invalid_input);
  EXPECT_THAT(m.error().message, HasSubstr("its shape is 576 x 544"));
  EXPECT_THAT(m.error().message, HasSubstr("the architecture expects 576 x 576"));
  EXPECT_THAT(m.error().where, HasSubstr("tensor blk.0.attn_output.weight"));
}

TEST(moves, can_be_given_up_while_they_wait) {
  auto e = tiny_engine();
  std::promise<engine::move_status> ended;
  // The first move holds the mover until the second is cancelled.
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  auto first = e->move(bench::everything_to(*e, 1), [gone](const engine::move_status& s) {
    if (s.state == engine::move_state::preparing) gone.wait();
  });
  ASSERT_TRUE(first.has_value());
  auto second = e->move(bench::everything_to(*e, 0), [&](const engine::move_status& s) {
    if (s.state != engine::move_state::preparing) ended.set_value(s);
  });
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(e->cancel_move(*second).has_value());
  go.set_value();
  EXPECT_EQ(ended.get_future().get().state, engine::move_state::cancelled);
  for (const engine::part_status& p : e->status().parts) EXPECT_EQ(p.device, 1U);
}

TEST(moves, can_be_given_up_while_they_are_prepared) {
  auto e = tiny_engine();
  std::promise<void> preparing, go;
  std::promise<engine::move_status> ended;
  std::shared_future<void> gone = go.get_future().share();
  auto id = e->move(bench::everything_to(*e, 1), [&, gone](const engine::move_status& s) {
    if (s.state != engine::move_state::preparing) return ended.set_value(s);
    if (s.bytes_done == 0) preparing.set_value();
    gone.wait();
  });
  ASSERT_TRUE(id.has_value());
  preparing.get_future().wait();
  EXPECT_TRUE(e->cancel_move(*id).has_value());
  go.set_value();
  EXPECT_EQ(ended.get_future().get().state, engine::move_state::cancelled);
  for (const engine::part_status& p : e->status().parts) EXPECT_EQ(p.device, 0U);
  EXPECT_EQ(e->devices()[1]->used_bytes(engine::memory_use::weights), 0U);
}

TEST(moves, tell_how_far_they_are) {
  auto e = tiny_engine();
  std::vector<std::uint64_t> done;
  std::promise<engine::move_status> ended;
  auto id = e->move(bench::everything_to(*e, 1), [&](const engine::move_status& s) {
    if (s.state != engine::move_state::preparing) return ended.set_value(s);
    done.push_back(s.bytes_done);
  });
  ASSERT_TRUE(id.has_value());
  const engine::move_status s = ended.get_future().get();
  EXPECT_EQ(s.state, engine::move_state::committed);
  ASSERT_GT(done.size(), 5U);
  EXPECT_LE(done.size(), 60U);
  EXPECT_EQ(done.front(), 0U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_GT(done.back(), s.bytes_total / 2);
  EXPECT_LE(done.back(), s.bytes_total);
}

TEST(moves, copy_only_the_page_being_written_in_the_pause) {
  auto e = tiny_engine();
  auto reply = std::make_shared<bench::recorder>();
  const result<engine::session_id> id = e->generate(request(*e, 200, 250), reply);
  ASSERT_TRUE(id.has_value());
  reply->wait_for(5);
  engine::move_status s = bench::move_and_wait(*e, bench::everything_to(*e, 1));
  ASSERT_EQ(s.state, engine::move_state::committed);
  const auto& c = e->loaded_model().config();
  EXPECT_LE(s.bytes_in_pause, std::uint64_t{c.layers} * kernels::page_bytes(c.attention));
  EXPECT_GT(s.bytes_done, 3ULL * c.layers * kernels::page_bytes(c.attention));
  static_cast<void>(e->stop(*id));  // it may have ended
  reply->wait();
}

}  // namespace
}  // namespace terrane::test
