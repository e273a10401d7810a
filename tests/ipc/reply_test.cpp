#include <optional>

#include <gtest/gtest.h>

#include "ipc/control/answer.hpp"
#include "ipc/varlink/message.hpp"
#include "ipc/varlink/reply_state.hpp"

namespace terrane::ipc::varlink {
namespace {

struct reply_test : testing::Test {
  int wakes = 0;
  std::shared_ptr<reply_state> state;

  reply make(bool streaming, std::size_t queued_bytes = 1000) {
    reply_options options;
    options.streaming = streaming;
    options.queued_bytes = queued_bytes;
    options.message_bytes = 4 * 1024 * 1024;
    options.abandoned = {"a.b.Abandoned", {}};
    options.too_large = {"a.b.TooLarge", {}};
    state = std::make_shared<reply_state>(std::move(options), [this] { ++wakes; });
    return reply(state);
  }

  response taken() {
    std::string text = state->take().bytes;
    EXPECT_FALSE(text.empty());
    text.resize(text.size() - (text.empty() ? 0 : 1));
    auto parsed = parse_response(text, 32);
    EXPECT_TRUE(parsed);
    return parsed ? *parsed : response{};
  }
};

TEST_F(reply_test, a_stream_ends_with_its_finish) {
  const reply to = make(true);
  EXPECT_EQ(to.send({{"n", 1}}), sent::yes);
  EXPECT_EQ(to.send({{"n", 2}}), sent::yes);
  EXPECT_EQ(wakes, 1);
  const auto first = state->take();
  EXPECT_FALSE(first.last);
  EXPECT_EQ(std::count(first.bytes.begin(), first.bytes.end(), '\0'), 2);
  to.finish({{"n", 3}});
  EXPECT_EQ(wakes, 2);
  EXPECT_EQ(to.send({{"n", 4}}), sent::gone);
  to.fail({"a.b.C", {}});
  const auto last = state->take();
  EXPECT_TRUE(last.last);
  EXPECT_EQ(std::count(last.bytes.begin(), last.bytes.end(), '\0'), 1);
}

TEST_F(reply_test, a_full_queue_takes_no_more_until_it_is_taken) {
  const reply to = make(true, 100);
  const boost::json::object message{{"text", std::string(60, 'x')}};
  EXPECT_EQ(to.send(message), sent::yes);
  EXPECT_EQ(to.send(message), sent::full);
  state->take();
  EXPECT_EQ(to.send(message), sent::yes);
  to.finish(message);  // always taken
  EXPECT_TRUE(state->take().last);
}

TEST_F(reply_test, without_more_nothing_is_sent_before_the_end) {
  const reply to = make(false);
  EXPECT_EQ(to.send({}), sent::full);
  to.finish({});
  EXPECT_TRUE(state->take().last);
}

TEST_F(reply_test, dropping_the_last_handle_answers_the_client) {
  {
    const reply first = make(false);
    const reply second = first;
  }
  EXPECT_EQ(taken().error, "a.b.Abandoned");
}

TEST_F(reply_test, a_reply_over_the_limit_becomes_an_error) {
  make(false).finish({{"text", std::string(5 * 1024 * 1024, 'x')}});
  EXPECT_EQ(taken().error, "a.b.TooLarge");
}

TEST_F(reply_test, cancelling_runs_the_action_once_and_frees_it) {
  auto owned = std::make_shared<int>(0);
  const reply to = make(true);
  to.on_cancel([owned, to] { ++*owned; });  // owns its own handle
  EXPECT_FALSE(to.cancelled());
  state->cancel();
  state->cancel();
  EXPECT_TRUE(to.cancelled());
  EXPECT_EQ(*owned, 1);
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(to.send({}), sent::gone);
  EXPECT_TRUE(state->take().last);
  to.on_cancel([owned] { ++*owned; });  // too late: at once
  EXPECT_EQ(*owned, 2);
}

TEST_F(reply_test, an_answered_call_is_not_cancelled) {
  bool ran = false;
  const reply to = make(true);
  to.on_cancel([&] { ran = true; });
  to.finish({});
  state->cancel();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(to.cancelled());
  to.on_cancel([&] { ran = true; });
  EXPECT_FALSE(ran);
}

TEST_F(reply_test, a_slow_client_gets_larger_pieces_of_text) {
  const generate_stream to(make(true, 100));
  to.started(3);
  to.text("one ");
  to.text("two ");  // these two do not fit beside what waits
  to.text("three ");
  EXPECT_EQ(std::string(taken().parameters.at("text").as_string()), "");
  to.text("four");
  EXPECT_EQ(std::string(taken().parameters.at("text").as_string()), "one two three four");
  to.finish({});
  const auto last = taken();
  EXPECT_EQ(std::string(last.parameters.at("text").as_string()), "");
  EXPECT_FALSE(last.continues);
}

TEST_F(reply_test, a_client_that_reads_nothing_of_a_long_reply_is_cancelled) {
  const generate_stream to(make(true, 120));
  bool cancelled = false;
  to.on_cancel([&] { cancelled = true; });
  to.started(3);
  for (int i = 0; i < 600 && !cancelled; ++i) {
    to.text(std::string(1024, 'x'));
  }
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(to.cancelled());
  const auto batch = state->take();
  EXPECT_TRUE(batch.last);
  EXPECT_NE(batch.bytes.find("io.terrane.Control.TooSlow"), std::string::npos);
}

TEST_F(reply_test, without_more_all_text_comes_with_the_summary) {
  const generate_stream to(make(false));
  to.started(3);
  to.text("one ");
  to.text("two");
  to.finish({});
  const auto only = taken();
  EXPECT_EQ(std::string(only.parameters.at("text").as_string()), "one two");
  EXPECT_EQ(only.parameters.at("session").as_int64(), 3);
}

}  // namespace
}  // namespace terrane::ipc::varlink
