// The server over a real socket: what well- and ill-behaved clients get.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ipc/fixture.hpp"

namespace terrane::ipc {
namespace {

using std::string_literals::operator""s;
struct server_test : control_test {};

TEST_F(server_test, a_call_is_answered) {
  start();
  raw_client client(path);
  ASSERT_TRUE(client.send_message(call_text("Status")));
  const auto reply = client.receive();
  EXPECT_EQ(reply.at("parameters").at("revision").as_int64(), 7);
  EXPECT_FALSE(reply.as_object().contains("continues"));
}

TEST_F(server_test, a_call_may_come_byte_by_byte) {
  start();
  raw_client client(path);
  for (const char c : call_text("Status") + '\0') {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_EQ(error_of(client.receive()), "");
}

TEST_F(server_test, calls_sent_ahead_are_answered_in_order) {
  start();
  raw_client client(path);
  std::string many;
  for (int i = 0; i < 300; ++i) {
    many += call_text("Explain", "{\"id\":" + std::to_string(i) + "}") + '\0';
  }
  ASSERT_TRUE(client.send(many));
  for (int i = 0; i < 300; ++i) {
    const auto reply = client.receive();
    if (i == 41) {
      EXPECT_EQ(reply.at("parameters").at("decision").at("id").as_int64(), 41);
    } else {
      EXPECT_EQ(reply.at("parameters").at("id").as_int64(), i);
    }
  }
}

TEST_F(server_test, what_is_not_a_call_gets_a_named_error_and_the_connection_ends) {
  start();
  for (const std::string& bytes :
       {"\0"s, "\0\0"s, "{\0"s, "[]\0"s, "not json\0"s, "{\"method\":7}\0"s, "\xff\xfe\0"s,
        std::string(100000, '[') + '\0'}) {
    raw_client client(path);
    client.send(bytes);
    EXPECT_EQ(error_of(client.receive()), "org.varlink.service.InvalidParameter");
    EXPECT_TRUE(client.ended());
  }
  raw_client after(path);
  after.send_message(call_text("Status"));
  EXPECT_EQ(error_of(after.receive()), "");
}

TEST_F(server_test, unknown_names_and_wrong_parameters_are_refused_and_the_connection_goes_on) {
  start();
  raw_client client(path);
  const auto refused = [&](const std::string& text) {
    client.send_message(text);
    return client.receive();
  };
  EXPECT_EQ(error_of(refused(R"({"method":"NoInterface"})")),
            "org.varlink.service.InterfaceNotFound");
  EXPECT_EQ(error_of(refused(R"({"method":"org.example.Other"})")),
            "org.varlink.service.InterfaceNotFound");
  EXPECT_EQ(error_of(refused(call_text("Nothing"))), "org.varlink.service.MethodNotFound");
  const auto unknown = refused(call_text("Status", R"({"verbose":true})"));
  EXPECT_EQ(error_of(unknown), "org.varlink.service.InvalidParameter");
  EXPECT_EQ(unknown.at("parameters").at("parameter").as_string(), "verbose");
  EXPECT_EQ(error_of(refused(call_text("Explain", R"({"id":"41"})"))),
            "org.varlink.service.InvalidParameter");
  EXPECT_EQ(error_of(refused(call_text("Explain"))), "org.varlink.service.InvalidParameter");
  EXPECT_EQ(error_of(refused(call_text("Status", "{}", R"("upgrade":true)"))),
            "org.varlink.service.InvalidParameter");
  EXPECT_EQ(error_of(refused(call_text("Monitor"))), "org.varlink.service.ExpectedMore");
  EXPECT_EQ(error_of(refused(call_text("Status"))), "");
}

TEST_F(server_test, what_the_interface_cannot_say_is_checked_too) {
  start();
  raw_client client(path);
  for (const auto& [member, parameters] :
       {std::pair{"Generate", "{}"}, std::pair{"Generate", R"({"prompt":"a","messages":[]})"},
        std::pair{"Generate", R"({"messages":[]})"},
        std::pair{"Generate", R"({"prompt":"a","max_tokens":0})"},
        std::pair{"Move", R"({"parts":[],"device":"cpu"})"},
        std::pair{"SpillKv", R"({"session":3,"keep_tokens":-1})"},
        std::pair{"Plan", R"({"content":"policies: []"})"}}) {
    client.send_message(call_text(member, parameters));
    EXPECT_EQ(error_of(client.receive()), "org.varlink.service.InvalidParameter")
        << member << parameters;
  }
}

TEST_F(server_test, a_message_over_the_limit_ends_the_connection) {
  options.limits.message_bytes = 1000;
  start();
  raw_client client(path);
  client.send(std::string(1001, ' '));
  EXPECT_EQ(error_of(client.receive()), "org.varlink.service.InvalidParameter");
  EXPECT_TRUE(client.ended());

  raw_client fits(path);
  std::string text = call_text("Status");
  fits.send_message(text + std::string(1000 - text.size(), ' '));
  EXPECT_EQ(error_of(fits.receive()), "");
}

TEST_F(server_test, the_default_limit_is_a_mebibyte) {
  start();
  raw_client client(path);
  client.send(std::string(1024 * 1024 + 1, 'x'));
  EXPECT_EQ(error_of(client.receive()), "org.varlink.service.InvalidParameter");
}

TEST_F(server_test, a_client_that_closed_its_sending_side_still_gets_its_replies) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})", R"("more":true)"));
  client.send_message(call_text("Status"));
  client.finish_sending();
  const auto open = service.next_generate();
  open.to.started(3);
  EXPECT_EQ(client.receive().at("parameters").at("session").as_int64(), 3);
  EXPECT_FALSE(open.to.cancelled());
  open.to.finish({});
  EXPECT_FALSE(client.receive().as_object().contains("continues"));
  EXPECT_EQ(error_of(client.receive()), "");
  EXPECT_TRUE(client.ended());
}

// Waits for the cancellation; returns whether it came.
bool is_cancelled(const generate_stream& to) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  to.on_cancel([&] {
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, std::chrono::seconds(10), [&] { return done; });
}

// Connections that end while others begin: what happens to one socket must not end another.
TEST_F(server_test, clients_that_come_and_go_at_once_all_get_their_answers) {
  start();
  std::atomic<int> unanswered{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 8; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 1500; ++i) {
        raw_client client(path);
        client.send_message(call_text("Status"));
        if (!client.receive().is_object()) ++unanswered;
      }
    });
  }
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(unanswered, 0);
}

TEST_F(server_test, a_client_that_disappears_cancels_its_call) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})", R"("more":true)"));
  const auto open = service.next_generate();
  client.close();
  EXPECT_TRUE(is_cancelled(open.to));
  EXPECT_TRUE(open.to.cancelled());
}

TEST_F(server_test, a_client_that_disappears_after_half_closing_cancels_too) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})"));
  client.finish_sending();
  const auto open = service.next_generate();
  client.close();
  EXPECT_TRUE(is_cancelled(open.to));
}

TEST_F(server_test, a_client_that_disappears_with_bytes_unread_cancels_too) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})", R"("more":true)"));
  const auto open = service.next_generate();
  client.send("the beginning of another call");
  open.to.started(3);
  client.close();
  EXPECT_TRUE(is_cancelled(open.to));
}

TEST_F(server_test, a_client_that_disappears_does_not_stop_a_move) {
  start();
  raw_client client(path);
  client.send_message(call_text("Move", R"({"parts":["head"],"device":"cpu"})"));
  const auto open = service.next_move();
  client.close();
  open.to.progress({});
  open.to.finish({});
  raw_client after(path);
  after.send_message(call_text("Status"));
  EXPECT_EQ(error_of(after.receive()), "");
}

TEST_F(server_test, oneway_calls_are_done_and_not_answered) {
  start();
  raw_client client(path);
  client.send_message(call_text("CloseSession", R"({"session":3})", R"("oneway":true)"));
  client.send_message(call_text("Explain", R"({"id":1})", R"("oneway":true)"));
  client.send_message(call_text("Explain", R"({"id":41})"));
  EXPECT_EQ(client.receive().at("parameters").at("decision").at("id").as_int64(), 41);
  EXPECT_EQ(service.asked(), std::vector<std::string>{"close 3"});
}

TEST_F(server_test, oneway_calls_count_although_the_client_left_at_once) {
  start();
  raw_client client(path);
  client.send_message(call_text("CancelMove", R"({"move":5})", R"("oneway":true)"));
  client.close();
  service.wait_for("cancel 5");
}

TEST_F(server_test, replies_may_come_from_any_thread) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})", R"("more":true)"));
  const auto open = service.next_generate();
  std::thread engine([to = open.to] {
    to.started(3);
    for (int i = 0; i < 2000; ++i) {
      to.text("x");
    }
    to.finish({});
  });
  std::size_t length = 0;
  for (bool more = true; more;) {
    const auto reply = client.receive();
    length += reply.at("parameters").at("text").as_string().size();
    more = reply.as_object().contains("continues");
  }
  engine.join();
  EXPECT_EQ(length, 2000U);
}

TEST_F(server_test, a_handler_that_drops_its_handle_leaves_no_client_waiting) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})"));
  { const auto dropped = service.next_generate(); }
  EXPECT_EQ(error_of(client.receive()), "io.terrane.Control.Failed");
}

TEST_F(server_test, one_user_has_so_many_connections) {
  options.limits.connections_per_user = 2;
  start();
  raw_client first(path);
  raw_client second(path);
  for (raw_client* one : {&first, &second}) {
    one->send_message(call_text("Status"));
    EXPECT_EQ(error_of(one->receive()), "");
  }
  raw_client third(path);
  EXPECT_EQ(error_of(third.receive()), "io.terrane.Control.TooManyConnections");
  EXPECT_TRUE(third.ended());

  first.close();
  second.send_message(call_text("Status"));  // by its reply, the server has seen the close
  EXPECT_EQ(error_of(second.receive()), "");
  raw_client fourth(path);
  fourth.send_message(call_text("Status"));
  EXPECT_EQ(error_of(fourth.receive()), "");
}

TEST_F(server_test, an_idle_connection_is_closed_and_a_waiting_one_is_not) {
  options.limits.idle = std::chrono::milliseconds(20);
  start();
  raw_client waiting(path);
  waiting.send_message(call_text("Generate", R"({"prompt":"a"})"));
  const auto open = service.next_generate();
  raw_client idle(path);
  idle.send("{\"met");  // half a call does not count
  EXPECT_TRUE(idle.ended());
  open.to.finish({});
  EXPECT_EQ(error_of(waiting.receive()), "");
  EXPECT_TRUE(waiting.ended());
}

TEST_F(server_test, a_client_that_takes_nothing_is_given_up) {
  options.limits.write_stall = std::chrono::milliseconds(50);
  start();
  raw_client client(path);
  client.send_message(call_text("Monitor", "{}", R"("more":true)"));
  EXPECT_EQ(client.receive().at("parameters").at("sequence").as_int64(), 0);
  event big;
  big.message = std::string(100'000, 'x');
  while (events.subscribers() > 0) {
    events.publish(big);
    std::this_thread::yield();
  }
}

TEST_F(server_test, stopping_tells_those_who_wait_and_removes_the_socket) {
  start();
  raw_client client(path);
  client.send_message(call_text("Generate", R"({"prompt":"a"})", R"("more":true)"));
  const auto open = service.next_generate();
  server->stop();
  server->stop();
  EXPECT_EQ(error_of(client.receive()), "io.terrane.Control.ShuttingDown");
  EXPECT_TRUE(client.ended());
  EXPECT_TRUE(open.to.cancelled());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(raw_client(path).connected());
  open.to.text("too late");
  open.to.finish({});
}

TEST_F(server_test, stopping_does_not_wait_for_a_client_that_reads_nothing) {
  options.limits.linger = std::chrono::milliseconds(20);
  start();
  raw_client client(path);
  client.send_message(call_text("Monitor", "{}", R"("more":true)"));
  EXPECT_EQ(error_of(client.receive()), "");
  event big;
  big.message = std::string(100'000, 'x');
  for (int i = 0; i < 50; ++i) {
    events.publish(big);
  }
  server->stop();
  EXPECT_EQ(events.subscribers(), 0U);
}

}  // namespace
}  // namespace terrane::ipc
