// terranectl's chat and generate: what they print, how they end, and Ctrl-C.
#include <array>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/ipc/terranectl_fixture.hpp"

namespace terrane::ipc::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

struct talk_test : terranectl_test {};

TEST_F(talk_test, a_daemon_that_is_killed_is_told_with_where_to_look) {
  // All that is left of one is a connection that ends.
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  std::thread killed([&] {
    const int caller = accept(listening, nullptr, nullptr);
    std::array<char, 4096> call;
    EXPECT_GT(read(caller, call.data(), call.size()), 0);
    const std::string piece = R"({"parameters":{"session":3,"text":"Once "},"continues":true})";
    EXPECT_GT(write(caller, piece.c_str(), piece.size() + 1), 0);
    close(caller);
  });
  EXPECT_EQ(run({"generate", "tell"}), 1);
  killed.join();
  close(listening);
  EXPECT_THAT(err.str(), HasSubstr("stopped or killed"));
  EXPECT_THAT(err.str(), HasSubstr("journalctl -u terraned"));
  EXPECT_EQ(out.str(), "Once \n");  // the message has a line of its own
}

TEST_F(talk_test, generate_prints_text_only_unless_asked) {
  start();
  service.pieces = {"Once ", "upon"};
  EXPECT_EQ(run({"generate", "tell"}), 0);
  EXPECT_EQ(out.str(), "Once upon\n");
  EXPECT_EQ(run({"generate", "tell", "--stats"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("[2 tokens, 20.0/s"));
  EXPECT_EQ(run({"generate"}, "from a pipe"), 0);
  EXPECT_EQ(service.asked().back(), "generate from a pipe");
}

TEST_F(talk_test, a_stop_text_does_not_swallow_the_prompt) {
  start();
  std::thread program([this] {
    EXPECT_EQ(run({"generate", "--stop", "END", "--stop", "FIN", "hello"}), 0) << err.str();
  });
  const auto open = service.next_generate();
  open.to.finish({});
  program.join();
  EXPECT_EQ(open.request.prompt, "hello");
  EXPECT_EQ(open.request.stop, (std::vector<std::string>{"END", "FIN"}));
}

TEST_F(talk_test, text_that_is_not_utf8_is_refused_by_name) {
  start();
  EXPECT_EQ(run({"generate", "a\xff"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("the text is not UTF-8"));
}

TEST_F(talk_test, generate_passes_its_settings_on) {
  start();
  std::thread program([this] {
    EXPECT_EQ(run({"generate", "--chat", "hello", "--temperature", "0", "--seed", "7", "--stop",
                   "END", "--max-tokens", "9", "--system", "Be brief."}),
              0);
  });
  const auto open = service.next_generate();
  open.to.finish({});
  program.join();
  ASSERT_EQ(open.request.messages->size(), 2U);
  EXPECT_EQ(open.request.messages->front().role, chat_role::system);
  EXPECT_EQ(open.request.sampling->temperature, 0.0);
  EXPECT_EQ(open.request.sampling->seed, 7);
  EXPECT_EQ(open.request.stop, (std::vector<std::string>{"END"}));
  EXPECT_EQ(open.request.max_tokens, 9);
  EXPECT_FALSE(open.request.prompt);
}

TEST_F(talk_test, a_terminal_is_not_driven_by_what_the_model_says) {
  start();
  service.pieces = {"\033]0;gotcha\007", "ok"};
  terminal = true;
  EXPECT_EQ(run({"generate", "tell"}), 0);
  EXPECT_THAT(out.str(), Not(HasSubstr("\033]")));
  EXPECT_THAT(out.str(), HasSubstr("ok"));
}

TEST_F(talk_test, a_chat_from_a_pipe_keeps_one_session_and_closes_it) {
  start();
  service.pieces = {"Yes."};
  EXPECT_EQ(run({"chat"}, "first\n\nsecond"), 0) << err.str();
  EXPECT_EQ(out.str(), "Yes.\nYes.\n");
  EXPECT_EQ(service.asked(),
            (std::vector<std::string>{"generate first", "generate second", "close 3"}));
}

TEST_F(talk_test, a_reply_that_was_closed_is_no_success) {
  start();
  generate_summary closed;
  closed.stop = stop_reason::closed;
  closed.closed_by = "user 7";
  for (const bool json : {false, true}) {
    int code = -1;
    std::thread program([&] {
      code = json ? run({"generate", "--json", "tell"}) : run({"generate", "tell"});
    });
    const auto open = service.next_generate();
    open.to.text("Once");
    open.to.finish(closed);
    program.join();
    EXPECT_EQ(code, 1);
    if (!json) {
      EXPECT_THAT(err.str(), HasSubstr("the session was closed by user 7 before the reply's end"));
    }
  }
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.finish(closed);
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, std::nullopt);
  second.to.finish({});
  program.join();
  EXPECT_EQ(code, 1);
}

TEST_F(talk_test, a_chat_with_a_daemon_that_has_no_model_fails_at_once) {
  start();
  service.state = daemon_state::failed;
  EXPECT_EQ(run({"chat"}, ""), 1);
  EXPECT_THAT(err.str(), HasSubstr("tiny.gguf: is truncated"));
}

TEST_F(talk_test, a_chat_goes_on_after_a_refusal_and_ends_with_failure) {
  start();
  EXPECT_EQ(run({"chat", "--json"}, "/help\n"), 0);
  std::thread program([this] { EXPECT_EQ(run({"chat"}, "first\nsecond\n"), 1); });
  service.next_generate().to.fail(refuse::context_exceeded(3000, 2048));
  const auto second = service.next_generate();
  second.to.started(3);
  second.to.finish({});
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("the prompt has 3000 tokens and the context takes 2048"));
}

// Ctrl-C is a signal to the thread that chats; SIGINT stays blocked so that it cannot end the test.
void block_ctrl_c() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
}

TEST_F(talk_test, ctrl_c_stops_the_reply_and_the_chat_goes_on) {
  start();
  typed = true;
  block_ctrl_c();
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.text("Once");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("stop 3");
  generate_summary stopped;
  stopped.stop = stop_reason::stopped;
  first.to.finish(stopped);
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, 3);
  second.to.text(" more");
  second.to.finish({});
  program.join();
  EXPECT_EQ(code, 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("Once"));
}

// The reply has ended by the first Ctrl-C, but that has not come through when the second does.
TEST_F(talk_test, a_reply_that_is_left_leaves_no_session) {
  start();
  typed = true;
  block_ctrl_c();
  std::thread program([&] { EXPECT_EQ(run({"chat"}, "first\n"), 0); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.text("Once");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("stop 3");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("close 3");
  program.join();
  EXPECT_THAT(out.str(), HasSubstr("The reply was left, and its conversation."));
}

// Session 3 of the new daemon is somebody else's.
TEST_F(talk_test, a_chat_does_not_go_on_in_a_session_of_another_daemon) {
  start();
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\nthird\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  service.pid = 4712;
  first.to.finish({});
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, std::nullopt);
  second.to.started(3);
  service.uptime_s = 1;  // in a container every daemon has the same number
  second.to.finish({});
  const auto third = service.next_generate();
  EXPECT_EQ(third.request.session, std::nullopt);
  third.to.finish({});
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("The daemon was started anew"));
}

TEST_F(talk_test, a_conversation_that_is_too_long_says_how_to_go_on) {
  start();
  std::thread program([this] { EXPECT_EQ(run({"chat"}, "first\nsecond\n"), 1); });
  const auto first = service.next_generate();
  first.to.started(3);
  generate_summary kept;
  kept.prompt_tokens = 40;
  kept.cached_tokens = 30;
  first.to.finish(kept);
  service.next_generate().to.fail(refuse::context_exceeded(3000, 2048));
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("/new begins another"));
}

}  // namespace
}  // namespace terrane::ipc::ctl
