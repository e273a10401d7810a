#include <gtest/gtest.h>

#include "ipc/control/event_hub.hpp"
#include "ipc/control/json.hpp"
#include "ipc/varlink/message.hpp"
#include "ipc/varlink/reply_state.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc {
namespace {

struct subscription {
  std::shared_ptr<varlink::reply_state> state;

  explicit subscription(event_hub& hub, std::size_t queued_bytes) {
    varlink::reply_options options;
    options.streaming = true;
    options.queued_bytes = queued_bytes;
    state = std::make_shared<varlink::reply_state>(std::move(options), [] {});
    hub.subscribe(varlink::reply(state));
  }

  std::vector<monitor_reply> taken() const {
    std::vector<monitor_reply> all;
    const std::string bytes = state->take().bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto end = bytes.find('\0', at);
      const auto parsed = varlink::parse_response(bytes.substr(at, end - at), 32);
      const auto value = parsed ? from_json<monitor_reply>(parsed->parameters) : std::nullopt;
      EXPECT_TRUE(value);
      all.push_back(value.value_or(monitor_reply{}));
      at = end + 1;
    }
    return all;
  }
};

TEST(event_hub, numbers_rise_by_one_and_a_subscriber_learns_where_it_came_in) {
  event_hub hub;
  EXPECT_EQ(hub.publish({}), 1);
  const subscription one(hub, 100'000);
  event warm;
  warm.message = "warm";
  EXPECT_EQ(hub.publish(warm), 2);
  EXPECT_EQ(hub.publish({}), 3);
  const auto got = one.taken();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].sequence, 1);
  EXPECT_FALSE(got[0].event);
  EXPECT_EQ(got[1].sequence, 2);
  EXPECT_EQ(got[1].event->message, "warm");
  EXPECT_EQ(got[2].sequence, 3);
}

TEST(event_hub, a_slow_subscriber_loses_events_by_count_and_is_told) {
  event_hub hub;
  const subscription slow(hub, 300);
  const subscription quick(hub, 100'000);
  for (int i = 0; i < 20; ++i) {
    hub.publish({});
  }
  EXPECT_EQ(quick.taken().size(), 21U);
  const auto before = slow.taken();
  ASSERT_GT(before.size(), 1U);
  ASSERT_LT(before.size(), 21U);
  hub.publish({});
  hub.publish({});
  const auto after = slow.taken();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].sequence, 21);
  EXPECT_EQ(after[0].lost, 20 - before.back().sequence);
  EXPECT_EQ(after[1].lost, 0);
}

TEST(event_hub, a_subscriber_that_left_is_forgotten) {
  event_hub hub;
  const subscription one(hub, 1000);
  EXPECT_EQ(hub.subscribers(), 1U);
  one.state->cancel();
  EXPECT_EQ(hub.subscribers(), 0U);
  hub.publish({});
}

struct monitor_test : control_test {};

TEST_F(monitor_test, a_reader_that_stopped_reading_is_told_what_it_lost) {
  start();
  raw_client client(path);
  client.send_message(call_text("Monitor", "{}", R"("more":true)"));
  EXPECT_EQ(client.receive().at("parameters").at("sequence").as_int64(), 0);
  event big;
  big.message = std::string(10'000, 'x');
  constexpr std::int64_t published = 500;
  for (int i = 0; i < published; ++i) {
    events.publish(big);
  }
  // What the kernel and the queue held arrives without gaps; after that, one more event is sent
  // until one arrives with the count.
  std::int64_t expected = 1;
  for (int received = 0;; ++received) {
    ASSERT_LT(received, 10 * published) << "it was never told";
    const auto reply = client.receive();
    ASSERT_TRUE(reply.is_object());
    const auto got = from_json<monitor_reply>(reply.at("parameters").as_object());
    ASSERT_TRUE(got);
    EXPECT_EQ(got->sequence, expected + got->lost);
    if (got->lost > 0) {
      break;
    }
    expected = got->sequence + 1;
    events.publish({});
  }
}

}  // namespace
}  // namespace terrane::ipc
