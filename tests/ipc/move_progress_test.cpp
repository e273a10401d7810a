// Move with `more`: what a client hears of a move that is being prepared, however slowly it reads.
#include <gtest/gtest.h>

#include "ipc/control/json.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc {
namespace {

constexpr const char* what = R"({"parts":["layer.1.ffn"],"device":"cpu"})";

struct move_progress : control_test {
  move_reply so_far{5, move_state::preparing, 7, 1'000'000, 0, {}, {}, {}};
  const move_reply committed{5, move_state::committed, 8, 1'000'000, 1'000'000, 1.5, 4096, {}};

  static move_reply read(const boost::json::value& reply) {
    const auto read = from_json<move_reply>(reply.at("parameters").as_object());
    EXPECT_TRUE(read);
    return read.value_or(move_reply{});
  }
};

TEST_F(move_progress, comes_in_order_and_ends_with_the_commit) {
  start();
  raw_client client(path);
  client.send_message(call_text("Move", what, R"("more":true)"));
  const fake_service::open_move open = service.next_move();
  for (so_far.bytes_done = 250'000; so_far.bytes_done < 1'000'000; so_far.bytes_done += 250'000) {
    open.to.progress(so_far);
    const auto reply = client.receive();
    EXPECT_TRUE(reply.at("continues").as_bool());
    EXPECT_EQ(read(reply).state, move_state::preparing);
    EXPECT_EQ(read(reply).bytes_done, so_far.bytes_done);
    EXPECT_FALSE(read(reply).pause_ms);
  }
  open.to.finish(committed);
  const auto last = client.receive();
  EXPECT_FALSE(last.as_object().contains("continues"));
  EXPECT_EQ(read(last).state, move_state::committed);
  EXPECT_EQ(read(last).bytes_in_pause, 4096);
}

// The mover reports from its own thread and never waits for a client: what a slow one does not take
// is dropped, and the commit is not.
TEST_F(move_progress, is_dropped_for_a_client_that_does_not_read_but_the_commit_arrives) {
  start();
  raw_client client(path);
  client.send_message(call_text("Move", what, R"("more":true)"));
  const fake_service::open_move open = service.next_move();
  constexpr std::int64_t reports = 50'000;  // some 8 MB; socket and queue hold less than one
  for (std::int64_t i = 1; i <= reports; ++i) {
    so_far.bytes_done = i;
    open.to.progress(so_far);
  }
  open.to.finish(committed);
  std::int64_t heard = 0;
  for (std::int64_t before = 0;; ++heard) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply.is_object()) << "the connection ended after " << heard << " reports";
    const move_reply got = read(reply);
    if (got.state == move_state::committed) {
      EXPECT_FALSE(reply.as_object().contains("continues"));
      break;
    }
    EXPECT_GT(got.bytes_done, before);
    before = got.bytes_done;
  }
  EXPECT_GT(heard, 0);
  EXPECT_LT(heard, reports);
}

TEST_F(move_progress, is_not_sent_to_a_client_that_wants_one_reply) {
  start();
  raw_client client(path);
  client.send_message(call_text("Move", what));
  const fake_service::open_move open = service.next_move();
  open.to.progress(so_far);
  open.to.finish(committed);
  const auto only = client.receive();
  EXPECT_EQ(read(only).state, move_state::committed);
  EXPECT_EQ(read(only).revision, 8);
}

}  // namespace
}  // namespace terrane::ipc
