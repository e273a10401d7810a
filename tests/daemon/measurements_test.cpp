// What the engine counted, as policies see it.
#include "daemon/loop/measurements.hpp"

#include <random>

#include <gtest/gtest.h>

#include "daemon/loop/snapshot_builder.hpp"
#include "tests/bench/bench_model.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

constexpr std::uint64_t mib = 1 << 20;
const std::vector<std::string> devices = {"cpu", "card"};

// An embedding and a layer of two parts, the first two on the CPU.
engine::engine_status machine() {
  engine::engine_status s;
  s.revision = 1;
  s.parts.resize(3);
  s.parts[0].weight_bytes = 100 * mib;
  s.parts[1].weight_bytes = 6 * mib;
  s.parts[1].kv_bytes = 4 * mib;  // attention
  s.parts[2].weight_bytes = 30 * mib;
  s.parts[1].device = s.parts[2].device = 1;
  s.decode_times.resize(2);
  return s;
}

policies::snapshot seen(const measurements& m) {
  policies::snapshot s;
  s.parts.resize(3);
  m.put_into(s, devices);
  return s;
}

TEST(measurements, a_link_costs_what_its_copies_took_and_old_copies_count_less) {
  measurements m(0, {});
  engine::engine_status s = machine();
  m.take(s, 0);
  EXPECT_TRUE(seen(m).links.empty());
  s.links = {{0, 1, 100 * mib, 100, 1, 4}};
  m.take(s, 1000);
  ASSERT_EQ(seen(m).links.size(), 1U);
  EXPECT_EQ(seen(m).links[0].from, "cpu");
  EXPECT_EQ(seen(m).links[0].to, "card");
  EXPECT_DOUBLE_EQ(seen(m).links[0].bytes_per_s, 1000.0 * mib);
  EXPECT_DOUBLE_EQ(seen(m).links[0].pause_ms, 4);
  m.take(s, 2000);  // nothing new
  EXPECT_DOUBLE_EQ(seen(m).links[0].bytes_per_s, 1000.0 * mib);
  // Half an hour later the way is ten times slower: an eighth of what was counts still.
  s.links = {{0, 1, 200 * mib, 1100, 2, 5}};
  m.take(s, 1000 + 30 * 60'000);
  EXPECT_NEAR(seen(m).links[0].bytes_per_s, (100 + 12.5) * mib / 1.0125, 1);
  EXPECT_NEAR(seen(m).links[0].pause_ms, (1 + 0.5) / 1.125, 1e-9);
  m.take(s, 25 * 3'600'000);
  EXPECT_TRUE(seen(m).links.empty());  // a day without a copy
}

TEST(measurements, a_few_bytes_make_no_bandwidth) {
  measurements m(0, {});
  engine::engine_status s = machine();
  s.links = {{0, 1, 1000, 5, 1, 1}};
  m.take(s, 1000);
  EXPECT_TRUE(seen(m).links.empty());
}

TEST(measurements, a_part_takes_its_share_of_its_devices_time) {
  measurements m(0, {{1, 0, 7.5}, {1, 1, 9.5}, {2, 0, 0}});
  engine::engine_status s = machine();
  m.take(s, 0);
  s.decode_times[1] = {100, 400};  // 4 ms a token: 1 and 3
  s.decode_times[0] = {100, 5};    // the embedding alone
  s.decode_tok_s = 12;
  m.take(s, 1000);
  policies::snapshot now = seen(m);
  EXPECT_DOUBLE_EQ(policies::measured_ms(now.parts[1], "card"), 1);  // and not the first guess
  EXPECT_DOUBLE_EQ(policies::measured_ms(now.parts[2], "card"), 3);
  EXPECT_DOUBLE_EQ(policies::measured_ms(now.parts[1], "cpu"), 7.5);
  EXPECT_EQ(policies::measured_ms(now.parts[2], "cpu"), 0);
  EXPECT_TRUE(now.parts[0].measured.empty());
  EXPECT_EQ(now.tokens_per_s, 12);
  // The part comes to the CPU: the engine counts anew, what was measured elsewhere stays.
  s.revision = 2;
  s.decode_before = {1, {0, 1, 1}, s.decode_times};  // nothing since
  s.parts[1].device = 0;
  s.decode_times[0] = {200, 400};
  s.decode_times[1] = {200, 800};
  m.take(s, 2000);
  now = seen(m);
  EXPECT_DOUBLE_EQ(policies::measured_ms(now.parts[1], "cpu"), 2);
  EXPECT_DOUBLE_EQ(policies::measured_ms(now.parts[1], "card"), 1);
  EXPECT_GT(policies::measured_ms(now.parts[2], "card"), 3.5);  // alone there now
}

// A reply that is over between two looks, and a move after it.
TEST(measurements, what_ran_before_a_move_counts) {
  measurements m(0, {});
  engine::engine_status s = machine();
  s.decode_times[1] = {50, 100};
  m.take(s, 0);
  s.decode_before = {1, {0, 1, 1}, s.decode_times};
  s.decode_before.times[1] = {100, 300};
  s.decode_times.assign(2, {});
  s.revision = 2;
  s.parts[2].device = 0;
  m.take(s, 0);
  EXPECT_DOUBLE_EQ(policies::measured_ms(seen(m).parts[2], "card"), 3 * 30.0 / 40);
  EXPECT_EQ(policies::measured_ms(seen(m).parts[2], "cpu"), 0);
  // Two moves between two looks: what was there last was not seen before.
  s.decode_before = {3, {0, 1, 0}, {{10, 10}, {10, 10}}};
  s.revision = 4;
  m.take(s, 0);
  EXPECT_DOUBLE_EQ(policies::measured_ms(seen(m).parts[2], "cpu"), 1);
  m.take(s, 0);
  EXPECT_DOUBLE_EQ(policies::measured_ms(seen(m).parts[2], "cpu"), 1);
}

// A reply that grows: 10 ms a token for the weights and a microsecond for each position.
struct growing_reply {
  engine::engine_status s = machine();
  double length = 100;
  std::mt19937 random{3};

  // For a second: ten tokens of `replies` replies.
  void go_on(measurements& m, std::int64_t second, std::uint64_t replies = 1) {
    engine::decode_time& t = s.decode_times[1];
    for (int i = 0; i < 10; i++) {
      t.tokens += replies;
      t.steps++;
      t.attended += replies * static_cast<std::uint64_t>(length);
      t.ms += 10 + 1e-3 * length + 1e-3 * static_cast<double>(random() % 100);
      length += 1;
    }
    m.take(s, second * 1000);
  }
};

double kv_per_s(const measurements& m) {
  policies::snapshot s;
  s.parts.resize(3);
  s.devices.resize(2);
  m.put_into(s, devices);
  return s.devices[1].kv_bytes_per_s;
}

TEST(measurements, kv_is_read_as_fast_as_growing_contexts_show) {
  const kv_shape kv = {{1}, 1024};
  measurements m(0, {}, kv);
  growing_reply reply;
  for (std::int64_t t = 1; t <= 5; t++) reply.go_on(m, t);
  EXPECT_EQ(kv_per_s(m), 0);  // too much alike
  for (std::int64_t t = 6; t <= 60; t++) reply.go_on(m, t);
  EXPECT_NEAR(kv_per_s(m), 1024 / 1e-6, 0.1 * 1024 / 1e-6);
  // In another placement the device reads other weights: nothing of before counts, and what was
  // found stays until something else is.
  reply.s.revision = 2;
  reply.s.parts[2].device = 0;
  reply.s.decode_times.assign(2, {});
  reply.go_on(m, 61);
  EXPECT_NEAR(kv_per_s(m), 1024 / 1e-6, 0.1 * 1024 / 1e-6);
  // For an hour, then it is not known any more.
  m.take(reply.s, 3600'000);
  EXPECT_GT(kv_per_s(m), 0);
  m.take(reply.s, 3661'000);
  EXPECT_EQ(kv_per_s(m), 0);
}

TEST(measurements, what_says_nothing_of_kv_is_left_out) {
  const kv_shape kv = {{1}, 1024};
  measurements together(0, {}, kv), elsewhere(0, {}, kv), noise(0, {}, kv);
  growing_reply of_two, spilled, of_noise;
  for (std::int64_t t = 1; t <= 60; t++) of_two.go_on(together, t, 2);
  EXPECT_EQ(kv_per_s(together), 0);
  spilled.s.sessions.resize(1);
  spilled.s.sessions[0].kv = {{.bytes = mib}, {.bytes = mib, .away_bytes = mib}};
  for (std::int64_t t = 1; t <= 60; t++) spilled.go_on(elsewhere, t);
  EXPECT_EQ(kv_per_s(elsewhere), 0);
  for (std::int64_t t = 1; t <= 60; t++) {
    of_noise.s.decode_times[1].ms += static_cast<double>(of_noise.random() % 2000);
    of_noise.go_on(noise, t);
  }
  EXPECT_EQ(kv_per_s(noise), 0);
}

class until_the_end final : public engine::reply_observer {
 public:
  void on_token(const engine::token_event&) override {}
  void on_end(const engine::reply_summary&) override { ended_.set_value(); }
  bool wait() {
    return ended_.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }

 private:
  std::promise<void> ended_;
};

void reply(engine::inference_engine& e) {
  engine::generate_request r;
  r.keep = true;
  r.prompt = {1, 2, 3};
  r.max_tokens = 8;
  auto observer = std::make_shared<until_the_end>();
  ASSERT_TRUE(e.generate(r, observer));
  ASSERT_TRUE(observer->wait());
}

TEST(measurements, come_from_replies_and_moves_into_the_snapshot) {
  test_engine t = engine_with_a_card();
  policies::move_limits limits;
  limits.in_flight_bytes = 5;
  snapshot_builder builder(*t.engine, {}, {}, limits);
  auto look = [&, at = std::int64_t{0}]() mutable {
    return builder.make(t.engine->status(), at += 1000, {}, {});
  };
  EXPECT_EQ(look().tokens_per_s, 0);
  reply(*t.engine);
  policies::snapshot s = look();
  EXPECT_EQ(s.limits.in_flight_bytes, 5U);
  EXPECT_GT(s.tokens_per_s, 0);
  const policies::part_state& head = s.parts.back();
  EXPECT_GT(policies::measured_ms(head, "cpu"), 0);
  EXPECT_EQ(policies::measured_ms(head, "vulkan:card"), 0);

  std::promise<engine::move_status> moved;
  ASSERT_TRUE(t.engine->move(bench::everything_to(*t.engine, 1), [&](const auto& now) {
    if (now.state == engine::move_state::committed) moved.set_value(now);
  }));
  auto future = moved.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const engine::move_status done = future.get();
  const std::vector<engine::link_traffic> links = t.engine->status().links;
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].from, 0U);
  EXPECT_EQ(links[0].to, 1U);
  // The page that is being written goes along once before the pause, and is not counted as done.
  EXPECT_GE(links[0].bytes, done.bytes_done);
  EXPECT_GT(links[0].copy_ms, 0);
  EXPECT_EQ(links[0].commits, 1U);
  EXPECT_DOUBLE_EQ(links[0].pause_ms, done.pause_ms);
  reply(*t.engine);
  s = look();
  EXPECT_GT(policies::measured_ms(s.parts.back(), "vulkan:card"), 0);
  EXPECT_GT(policies::measured_ms(s.parts.back(), "cpu"), 0);
}

}  // namespace
}  // namespace terrane::daemon
