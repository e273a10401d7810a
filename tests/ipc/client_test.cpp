#include "ipc/varlink/client.hpp"

#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/control/json.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc::varlink {
namespace {

struct client_test : control_test {
  client connected() {
    auto made = client::connect(path);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
};

TEST_F(client_test, it_calls_and_streams_on_one_connection) {
  start();
  service.pieces = {"one ", "two"};
  client to = connected();
  const auto status = to.call("io.terrane.Control.Status", {});
  ASSERT_TRUE(status) << status.error().what.message;
  EXPECT_EQ(from_json<status_reply>(*status)->revision, 7);

  std::string text;
  int last = 0;
  const auto ended = to.stream("io.terrane.Control.Generate", {{"prompt", "a"}},
                               [&](const boost::json::object& reply, bool continues) {
                                 text += reply.at("text").as_string();
                                 last += continues ? 0 : 1;
                                 return true;
                               });
  ASSERT_TRUE(ended);
  EXPECT_EQ(text, "one two");
  EXPECT_EQ(last, 1);
  EXPECT_TRUE(to.call("io.terrane.Control.Status", {}));
}

TEST_F(client_test, a_named_error_comes_with_its_parameters_and_message) {
  start();
  client to = connected();
  const auto reply = to.call("io.terrane.Control.Explain", {{"id", 9}});
  ASSERT_FALSE(reply);
  ASSERT_TRUE(reply.error().refused);
  EXPECT_EQ(reply.error().refused->name, "io.terrane.Control.UnknownDecision");
  EXPECT_EQ(reply.error().refused->parameters.at("newest").as_int64(), 41);
  EXPECT_EQ(reply.error().what.message, "there is no decision 9; those from 40 to 41 are kept");
  EXPECT_TRUE(to.call("io.terrane.Control.Status", {})) << "the connection goes on";
}

TEST_F(client_test, leaving_a_stream_early_cancels_it) {
  start();
  client to = connected();
  std::thread engine([this] {
    const auto open = service.next_generate();
    open.to.started(3);
    while (!open.to.cancelled()) {
      open.to.text("x");
      std::this_thread::yield();
    }
  });
  int seen = 0;
  EXPECT_TRUE(to.stream("io.terrane.Control.Generate", {{"prompt", "a"}},
                        [&](const boost::json::object&, bool) { return ++seen < 3; }));
  engine.join();
  EXPECT_EQ(seen, 3);
}

TEST_F(client_test, it_says_when_nobody_is_there) {
  EXPECT_EQ(client::connect(path).error().code, error_code::no_daemon);
  const int stale = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(stale);
  EXPECT_EQ(client::connect(path).error().code, error_code::no_daemon);
  EXPECT_EQ(client::connect(std::string(500, 'x')).error().code, error_code::io);
}

TEST_F(client_test, it_learns_why_it_was_sent_away_or_cut_off) {
  options.limits.connections_per_user = 1;
  start();
  client first = connected();
  ASSERT_TRUE(first.call("io.terrane.Control.Status", {}));
  client second = connected();
  const auto refused = second.call("io.terrane.Control.Status", {});
  ASSERT_FALSE(refused);
  ASSERT_TRUE(refused.error().refused);
  EXPECT_EQ(refused.error().refused->name, "io.terrane.Control.TooManyConnections");

  server->stop();
  const auto cut = first.call("io.terrane.Control.Status", {});
  ASSERT_FALSE(cut);
  EXPECT_FALSE(cut.error().refused);
  EXPECT_EQ(cut.error().what.code, error_code::disconnected);
}

TEST_F(client_test, a_watched_descriptor_is_served_while_a_reply_is_awaited) {
  start();
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  client to = connected();
  int served = 0;
  to.watch(pipes[0], [&] {
    char byte = 0;
    EXPECT_EQ(read(pipes[0], &byte, 1), 1);
    ++served;
    return byte != 'q';
  });
  ASSERT_EQ(write(pipes[1], "aq", 2), 2);
  const auto ended = to.call("io.terrane.Control.Generate", {{"prompt", "a"}});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().what.code, error_code::given_up);
  EXPECT_EQ(served, 2);
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace terrane::ipc::varlink
